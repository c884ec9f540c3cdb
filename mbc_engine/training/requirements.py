"""What a training must have, made sure of before anything is loaded."""

from collections.abc import Sequence
from pathlib import Path

from mbc_engine.config import Config, parse_config
from mbc_engine.datasets.example import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.work.run_folder import CONFIG, EVENTS, SNAPSHOT


def require_no_run(folder: Path) -> None:
    """Make sure that a folder is free for a new run.

    Raises:
        ConfigError: it holds one.
    """
    if (folder / EVENTS).exists() or (folder / SNAPSHOT).exists():
        raise ConfigError(f"{folder} holds a run already.", hint="Go on with --resume, or choose another --run.")


def require_examples(examples: Sequence[QAExample]) -> None:
    """Make sure that there is something to train on.

    Raises:
        DataError: there is not.
    """
    if not examples:
        raise DataError("There is nothing to train on.", hint="Give --data a file with questions.")


def require_start(start: Path) -> None:
    """Make sure that a training can start from the model in a folder.

    Raises:
        ConfigError: it is none of the paper's method.
    """
    parse_config((start / CONFIG).read_text(), str(start / CONFIG))


def require_live_encoders(config: Config) -> None:
    """Make sure that nothing is computed beside the steps that all processes take together, as FSDP wants it.

    Raises:
        ConfigError: states of a frozen encoder would be, or their principal components.
    """
    if config.model.documents.frozen or config.model.questions.frozen or config.training.pca_start:
        raise ConfigError(
            "Frozen encoders and training.pca_start do not go with FSDP.",
            hint="Launch without FSDP, or train the encoders.",
        )
