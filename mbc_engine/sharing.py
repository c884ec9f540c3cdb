"""Sharing models on the hub: pulling, and pushing with a model card, each after a check of the model. No torch."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from socket import gaierror
from typing import Final, Literal

from huggingface_hub import CommitOperationAdd, HfApi, ModelCard, ModelCardData, errors, get_token, snapshot_download
from safetensors import SafetensorError, safe_open

from mbc_engine.bank import CodeShape
from mbc_engine.config import Config, ModelSettings, parse_model_config
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.names import ADAPTER, CONFIG, WEIGHTS, is_model, packaged_model
from mbc_engine.runs.training_runs import RunHistory

ADAPTER_CONFIG: Final = f"{ADAPTER}/adapter_config.json"
ADAPTER_WEIGHTS: Final = f"{ADAPTER}/adapter_model.safetensors"
CARD: Final = "README.md"
MODEL_FILES: Final = (CONFIG, WEIGHTS, ADAPTER_CONFIG, ADAPTER_WEIGHTS)

_PART: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB_ID: Final = re.compile(f"{_PART}(?:/{_PART})?")

_COMMIT: Final = re.compile("[0-9a-f]{40}")
# Of a config, which is read whole; real ones take a few kilobytes.
_MOST_BYTES: Final = 1 << 20

_LOG_IN: Final = "Log in with `hf auth login`, or set HF_TOKEN."
_COPY: Final = "copy the model's folder."
_NAMES: Final = "Names consist of letters, digits, dots, dashes and underscores, for example ada/notes-gpt2."
# What the client raises if the hub does not answer; its HTTP library differs between versions.
_HTTP_ERROR: Final[type[Exception]] = errors.HfHubHTTPError.__bases__[0]
_NO_ANSWER: Final = (_HTTP_ERROR, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError, gaierror)

# A card without this line was written by hand, and is left alone.
MARK: Final = "<!-- Written by mbc models push. Without this line, the card is yours and stays as it is. -->"


@dataclass(frozen=True)
class Transfer:
    """A model that was pulled or pushed: its config, the commit, the bytes of its files, and where its card is from."""

    config: Config
    revision: str | None
    size: int
    card: Literal["written", "beside", "kept"]


def pull(
    repository: str, models: Path, *, name: str | None = None, revision: str | None = None, replaces: bool = False
) -> Transfer:
    """Download a model into a folder of models, check it, then move it into place.

    Only a model's files are downloaded; the next pull resumes an interrupted one. Raises ConfigError if a name is
    invalid or taken, ModelError if the model is not on the hub, cannot be downloaded, or fails the check.
    """
    _require_repository(repository)
    folder = _free_folder(models, name or repository, replaces=replaces)
    incoming = models / f".{(name or repository).replace('/', '--')}"
    download, replaced = incoming / "model", incoming / "replaced"
    with _hub_errors(repository, revision):
        commit, present = _contents(repository, revision)
        if missing := [file for file in MODEL_FILES if file not in present]:
            raise ModelError(
                f"{repository} is not an mbc model: it has no {missing[0]}.",
                hint="Check the name with its owner; retriever-readers such as mini cannot be shared yet.",
            )
        files = [*MODEL_FILES, *({CARD} & present)]
        snapshot_download(repository, revision=commit, local_dir=download, allow_patterns=files, library_name="mbc")
        try:
            config = check(download, repository, "Report it to its owner. Nothing was saved.")
            shutil.rmtree(download / ".cache", ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(folder):
                folder.rename(replaced)
            download.rename(folder)
        finally:
            if os.path.lexists(replaced) and not os.path.lexists(folder):  # interrupted in between
                replaced.rename(folder)
            shutil.rmtree(incoming, ignore_errors=True)
        return Transfer(config, commit, sum((folder / file).stat().st_size for file in files), "kept")


def push(
    folder: Path,
    repository: str,
    *,
    licence: str | None = None,
    history: RunHistory | None = None,
    command: str | None = None,
    replaces: bool = False,
    is_private: bool = False,
) -> Transfer:
    """Share the model in a folder in one commit, with a model card, creating the repository if needed.

    A handwritten card is kept, the one next to the model rather than the one on the hub; otherwise `model_card` writes
    it. Raises ConfigError if the name is invalid or taken, or a licence is given with a handwritten card, and
    ModelError if the model fails the check, names a path on this machine, or the hub refuses it.
    """
    _require_repository(repository)
    config = check(folder, f"The model in {folder}", "Fix it before sharing; others could not use it either.")
    api = HfApi(library_name="mbc")
    with _hub_errors(repository):
        present: set[str] = set()
        with suppress(errors.RepositoryNotFoundError):
            present = {sibling.rfilename for sibling in api.model_info(repository).siblings or ()}
        if present.intersection(MODEL_FILES) and not replaces:
            raise ConfigError(f"{repository} is already on the hub.", hint="--force replaces the model there.")
        content: dict[str, str | bytes] = {name: str(folder / name) for name in MODEL_FILES}
        card: Literal["written", "beside", "kept"] = "written"
        if (folder / CARD).is_file():
            card, content[CARD] = "beside", str(folder / CARD)
        elif CARD in present and MARK not in ModelCard.load(repository).content:
            card = "kept"
        else:
            text = model_card(config, repository, licence=licence, history=history, command=command)
            content[CARD] = text.encode()
        if licence and card != "written":
            raise ConfigError("The model card was written by hand.", hint="Write the licence into it, not --license.")
        if not get_token():
            raise ModelError("You are not logged in to the hub.", hint=_LOG_IN)
        api.create_repo(repository, private=is_private or None, exist_ok=True)
        if is_private and not api.model_info(repository).private:
            raise ModelError(f"{repository} exists already and is public.", hint="Change it on the hub first.")
        files = [CommitOperationAdd(name, source) for name, source in content.items()]
        commit = api.create_commit(repository, files, commit_message="Share a model of mbc")
    return Transfer(config, commit.oid, sum(file.upload_info.size for file in files), card)


def _contents(repository: str, revision: str | None) -> tuple[str, set[str]]:
    """The commit of a revision, and its files."""
    try:
        info = HfApi().model_info(repository, revision=revision)
        if info.sha is None or not _COMMIT.fullmatch(info.sha):  # the client makes a path of it
            raise ValueError(info.sha)
        return info.sha, {sibling.rfilename for sibling in info.siblings or ()}
    except _HTTP_ERROR:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"The hub's answer about {repository} makes no sense.", hint="Check HF_ENDPOINT.") from error


def _require_repository(text: str) -> None:
    if text.count("/") != 1 or not is_hub_id(text):
        raise ConfigError(f"{text!r} is not of the form OWNER/NAME.", hint=_NAMES)


def _free_folder(models: Path, name: str, *, replaces: bool) -> Path:
    folder, another = models / name, "Choose another --name."
    if not is_hub_id(name):
        raise ConfigError(f"{name!r} is not a valid model name.", hint=f"Use NAME or OWNER/NAME. {_NAMES}")
    if is_model(packaged_model(name)):
        raise ConfigError(f"{name} is the name of a built-in model.", hint=another)
    if os.path.lexists(folder) and not is_model(folder):
        raise ConfigError(f"{folder} exists and is not a model.", hint=another)
    if os.path.lexists(folder) and not replaces:
        raise ConfigError(f"A model {name} already exists.", hint="Replace it with --force, or use another --name.")
    return folder


@contextmanager
def _hub_errors(repository: str, revision: str | None = None) -> Iterator[None]:
    """Turn errors of the hub's client, the network and the file system into readable ModelErrors."""
    try:
        yield
    except (_HTTP_ERROR, OSError) as error:
        match error:
            case errors.RepositoryNotFoundError():
                message = f"There is no {repository} on the hub, or you have no access to it."
                hint = f"Check the name. A gated model needs its owner's approval. {_LOG_IN}"
            case errors.RevisionNotFoundError():
                message = f"{repository} has no revision {revision!r}."
                hint = "Give a branch, a tag or a commit, or leave it out."
            case errors.OfflineModeIsEnabled():
                message, hint = "HF_HUB_OFFLINE is set, so the hub is not contacted.", f"Unset it, or {_COPY}"
            case errors.HfHubHTTPError():
                reason = error.server_message or str(error).splitlines()[0]
                message, hint = f"The hub refused the request: {reason}", _LOG_IN
            case OSError() if error.errno is not None and not isinstance(error, _NO_ANSWER):
                message = f"{error.filename or repository}: {error.strerror}."
                hint = "Check permissions and free disk space."
            case _:
                message, hint = "The hub cannot be reached.", f"Check the network, or {_COPY}"
        raise ModelError(message, hint=hint) from error


def model_card(
    config: Config, repository: str, *, licence: str | None, history: RunHistory | None, command: str | None
) -> str:
    """The card as Markdown, with its front matter; `command` trains the same model with its config."""
    shape, base = CodeShape(*config.model.code_numbers), config.model.base
    front_matter = ModelCardData(
        library_name="mbc",
        pipeline_tag="question-answering",
        base_model=base,
        license=licence,
        tags=["mbc", "memory", "retrieval"],
    )
    template = files("mbc_engine").joinpath("model_card.md").read_text("utf-8")
    return template.format(
        front_matter=front_matter.to_yaml(),
        mark=MARK,
        repository=repository,
        base=base,
        tokens=shape.tokens,
        levels=shape.levels,
        codes=shape.num_codes,
        size=shape.bits_per_chunk / 8,
        training=_training(history, command),
        settings=config.to_toml().strip(),
    )


def _training(history: RunHistory | None, command: str | None) -> str:
    if history is None or history.started is None:
        return "The model was shared without its training run and is **not evaluated**."
    started, best, scores = history.started, history.best, "**not evaluated**"
    if best:
        first = "" if best.first_source is None else f", correct source ranked first {best.first_source:.1f} %"
        scores = (
            f"strict EM {best.exact_match:.1f} %, F1 {best.f1:.1f} %{first}, on {best.questions:,} held-out questions, "
            f"{best.documents:,} documents in the bank"
        )
    again = f"\n\n```sh\n{command}\n```" if command else ""
    return (
        f"- Data: {started.examples:,} questions about {started.documents:,} documents.\n"
        f"- State: {history.state}, {history.step:,} of {history.total_steps:,} steps, "
        f"{datetime.fromtimestamp(history.last_time or 0, UTC):%Y-%m-%d}.\n"
        f"- Trainable parameters: {started.trainable_parameters:,}.\n"
        f"- Best validation: {scores}.{again}"
    )


def is_hub_id(text: str) -> bool:
    """Whether a text has the form NAME or OWNER/NAME, which rules out absolute paths and `..`."""
    return len(text) <= 96 and _HUB_ID.fullmatch(text) is not None


def check(folder: Path, what: str, hint: str) -> Config:
    """The config of the model in a folder, after checking its settings and files; `what` names it in errors.

    Raises ModelError if something is missing, damaged or unsafe, or it is a retriever-reader. Whether the weights fit
    the config is checked when they are loaded.
    """
    try:
        try:
            if (folder / CONFIG).stat().st_size > _MOST_BYTES:
                raise ValueError("it is too large")
            config = parse_model_config((folder / CONFIG).read_text(encoding="utf-8"), CONFIG)
        except (ValueError, RecursionError, ConfigError) as error:
            raise ValueError(f"{CONFIG} cannot be parsed: {str(error).rstrip('.')}") from error
        if config.reads_text:
            raise ModelError(
                "Retriever-readers such as mini cannot be shared yet.",
                hint="mini comes with mbc; models trained with `mbc train` can be shared.",
            )
        _check_settings(config.model)
        for name in MODEL_FILES:
            if not (folder / name).is_file():
                raise ValueError(f"it has no {name}")
            if name == ADAPTER_CONFIG and (folder / name).stat().st_size > _MOST_BYTES:
                raise ValueError(f"{name} is too large")
            if name.endswith(".safetensors"):
                _check_weights(folder / name)
    except ValueError as error:
        raise ModelError(f"{what} cannot be used: {error}.", hint=hint) from error
    except OSError as error:
        raise ModelError(f"{what} cannot be read: {error}.", hint=hint) from error
    return config


# These checks raise ValueError with what is wrong, worded to follow a colon.


def _check_settings(settings: ModelSettings) -> None:
    if not settings.quantised:
        raise ValueError("it makes no codes (model.quantised = false), so no bank can be made with it")
    if not settings.lora.layers:
        raise ValueError("it has no KV-LoRA (model.lora.layers = 0), which shared models have")
    for name in (settings.base, *settings.encoders.values()):
        if not is_hub_id(name):
            raise ValueError(f"{name!r} is a path on one machine, not a hub id")
    CodeShape(*settings.code_numbers)


def _check_weights(path: Path) -> None:
    """Only the header is read; safetensors checks it against the file's length."""
    try:
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged ({error})") from error
