"""A model card: what a shared model is, how it was trained and how good it proved, from its config and its run.

Nothing is claimed that the run did not note: a model that was not evaluated says so.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mbc_engine.config import ConfidenceSettings, EncoderSettings
from mbc_engine.events import Validated
from mbc_engine.model_folder import EMBEDDED
from mbc_engine.runs.training_runs import RunHistory, RunState
from mbc_engine.sharing.inspection import SharedModel

# Stands in every card made here. A card without it is somebody's own, and is left alone.
MARK: Final = "<!-- Written by mbc models push. Without this line, the card is yours and stays as it is. -->"


@dataclass(frozen=True)
class Training:
    """What is known of the run that a model comes from.

    Attributes:
        history: its events.
        command: how to do the same with the config of the model; None if that is not known.
        device: where it ran; None if that is not known.
    """

    history: RunHistory
    command: str | None
    device: str | None


def model_card(
    model: SharedModel, repository: str, *, training: Training | None, licence: str | None, author: str
) -> str:
    """The card as Markdown, with its front matter.

    Args:
        model: checked.
        repository: OWNER/NAME.
        training: None for a model without its run.
        licence: as the hub names it; None leaves it out.
        author: the program that writes the card, with its version.
    """
    sections = (
        _front_matter(model, licence) + MARK,
        f"# {repository.partition('/')[2]}\n\n{_summary(model)}",
        f"## What it is made of\n\n{_table(_parts(model))}",
        f"## What its files hold\n\n{_table(_stored(model), 'Part', 'Numbers stored')}\n\n{_frozen(model)}",
        f"## Training\n\n{_training(model, training, author)}",
        f"## Use\n\n{_use(repository)}",
        f"## Limits\n\n{_limits(model)}",
    )
    return "\n\n".join(sections) + "\n"


def _front_matter(model: SharedModel, licence: str | None) -> str:
    base = model.config.model.base
    lines = [
        "---",
        "library_name: mbc",
        "pipeline_tag: question-answering",
        *([] if base.startswith(EMBEDDED) else [f"base_model: {json.dumps(base)}"]),
        *([f"license: {json.dumps(licence)}"] if licence else []),
        "tags:",
        "- mbc",
        "- memory",
        "- retrieval",
        "---",
    ]
    return "\n".join(lines) + "\n"


def _summary(model: SharedModel) -> str:
    shape = model.shape
    return (
        f"A compressed long-term memory for {_code(model.config.model.base)}. It turns a piece of text into "
        f"{shape.tokens * shape.levels} codes, {_bytes(shape.bits_per_chunk)}, without a gradient step, and answers "
        "questions from the codes of all documents, sources included."
    )


def _parts(model: SharedModel) -> list[tuple[str, str]]:
    settings, shape = model.config.model, model.shape
    lora = settings.lora
    books = "a book for each position" if shape.per_position else "one book for all positions"
    levels = "" if shape.levels == 1 else f", {shape.levels} residual levels"
    layers = "layer" if lora.layers == 1 else f"{lora.layers} layers"
    return [
        ("Base LM", f"{_code(settings.base)}, frozen; KV-LoRA of rank {lora.rank} on the last {layers}"),
        ("Document encoder", _encoder(settings.documents)),
        ("Question encoder", _encoder(settings.questions)),
        ("Vectors of a chunk, T", f"{shape.tokens} of width {model.dim}"),
        ("Codebook", f"{shape.num_codes:,} codes, {books}{levels}"),
        ("A chunk in a bank", f"{shape.bits_per_chunk} bits, {_bytes(shape.bits_per_chunk)}"),
        ("Read", f"`{settings.read}`"),
        ("Confidence of answers", _confidence(settings.confidence)),
    ]


def _confidence(own: ConfidenceSettings | None) -> str:
    if own is None:
        return "not calibrated"
    return "calibrated" if own.slope else "calibrated: every answer counts as unsure"


def _encoder(own: EncoderSettings) -> str:
    kept = "frozen" if own.frozen else "trained along, its weights are in the files"
    return f"{_code(own.name)}, {kept}; window of {own.window} tokens"


def _stored(model: SharedModel) -> list[tuple[str, str]]:
    rows = [(part, f"{count:,}") for part, count in model.stored.items()]
    return [*rows, ("all", f"{sum(model.stored.values()):,}")]


def _frozen(model: SharedModel) -> str:
    settings = model.config.model
    frozen = {side.name for side in (settings.documents, settings.questions) if side.frozen} | {settings.base}
    named = ", ".join(_code(name) for name in sorted(frozen))
    return f"Not in the files but loaded by name, each under its own licence: {named}."


def _training(model: SharedModel, training: Training | None, author: str) -> str:
    settings = model.config.training
    learned = (
        f"{settings.epochs} epochs, batches of {settings.batch_size} questions, "
        f"learning rate {settings.learning_rate:g}, {settings.precision}"
    )
    chosen = [("Settings", learned), ("Seed", str(settings.seed))]
    started = training.history.started if training else None
    if training is None or started is None:
        return (
            "The model was shared without its training run. **Not evaluated**: nothing is known of how good it is.\n\n"
            + _table([*chosen, ("Card written by", author)])
        )
    history = training.history
    facts = [
        ("State", _state(history)),
        ("Data", f"{started.examples:,} questions about {started.documents:,} documents"),
        *chosen,
        ("Trainable parameters", f"{started.trainable_parameters:,}"),
        *([("Device", _code(training.device))] if training.device else []),
        *([("Time", _duration(history.finished.seconds))] if history.finished else []),
        *([("Date", f"{datetime.fromtimestamp(history.last_time, UTC):%Y-%m-%d}")] if history.last_time else []),
        ("Best validation", _validation(history.best)),
        ("Card written by", author),
    ]
    again = f"\n\n`config.toml` holds every setting:\n\n```sh\n{training.command}\n```" if training.command else ""
    return _table(facts) + again


def _state(history: RunHistory) -> str:
    progress = history.progress
    if history.state is RunState.FINISHED:
        return f"finished, {progress.total:,} steps"
    return f"not finished: {progress.step:,} of {progress.total:,} steps"


def _validation(best: Validated | None) -> str:
    if best is None:
        return "**not evaluated**"
    source = "" if best.first_source is None else f", the right source first {best.first_source:.1f} %"
    return (
        f"strict EM {best.exact_match:.1f} %, F1 {best.f1:.1f} %{source}, on {best.questions:,} held-out questions, "
        f"{best.documents:,} documents in the bank, at step {best.step:,}"
    )


def _use(repository: str) -> str:
    return (
        f"```sh\nmbc models pull {repository}\n"
        f"mbc ingest FOLDER --model {repository} --bank my.mbc\n"
        f'mbc ask "..." --model {repository} --bank my.mbc\n```\n\n'
        f'In Python: `mbc_engine.load_model("{repository}")`.'
    )


def _limits(model: SharedModel) -> str:
    return (
        f"- {_bytes(model.shape.bits_per_chunk).capitalize()} hold no text word for word: names, numbers and dates can "
        "come out wrong. Read the source that is shown with an answer.\n"
        "- A bank belongs to the model that wrote it and is read by no other.\n"
        f"- A document longer than {model.config.model.documents.window} tokens is memorised in pieces.\n"
        "- Validation, where there was one, was on questions of the training's own kind; on other texts expect less.\n"
        "- What the base LM and the encoders get wrong, or learned from their data, it takes over."
    )


def _table(rows: list[tuple[str, str]], *head: str) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head or ("", ""), ("---", "---"), *rows))


def _code(text: str) -> str:
    """Foreign text as code: nothing of it is Markdown, or ends the code."""
    return f"`{re.sub(r'[`|<>]|[^ -~]', '?', text)}`"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bytes(bits: int) -> str:
    return f"{bits / 8:g} bytes"
