"""A model card: what a shared model is, how it was trained and how good it is, from its config and its training run.

Nothing is claimed that the run has not recorded: a model that was not evaluated says so.
"""

import re
from datetime import UTC, datetime
from typing import Final

from huggingface_hub import ModelCardData

from mbc_engine.config import Config, EncoderSettings, TrainingSettings
from mbc_engine.model_folder import EMBEDDED
from mbc_engine.runs.training_runs import RunHistory
from mbc_engine.sharing import code_shape

# A card without this line was written by hand, and is left alone.
MARK: Final = "<!-- Written by mbc models push. Without this line, the card is yours and stays as it is. -->"

_CARD: Final = """\
---
{front_matter}
---
{mark}

# {name}

A compressed long-term memory for {base}. It turns a piece of text into {codes} codes, {chunk_bytes:g} bytes, without a \
gradient step, and answers questions from the codes of all documents, with sources.

## Architecture

{parts}

Base LM and frozen encoders are not in the files but loaded by name, each under its own licence.

## Training

{training}

## Use

```sh
mbc models pull {repository}
mbc ingest FOLDER --model {repository} --bank my.mbc
mbc ask "..." --model {repository} --bank my.mbc
```

## Limits

- {chunk_bytes:g} bytes hold no text word for word: names, numbers and dates can come out wrong. Check the source that is \
shown with an answer.
- A bank belongs to the model that wrote it and cannot be read by any other.
- Validation questions are of the same kind as the training questions; expect less on other texts.
"""


def model_card(
    config: Config, repository: str, *, licence: str | None, history: RunHistory | None, command: str | None
) -> str:
    """The card as Markdown, with its front matter.

    Args:
        licence: as the hub names it.
        history: of its training run; None for a model without its run.
        command: trains the same with the model's config.
    """
    settings, shape = config.model, code_shape(config.model)
    front_matter = ModelCardData(
        library_name="mbc",
        pipeline_tag="question-answering",
        base_model=None if settings.base.startswith(EMBEDDED) else settings.base,
        license=licence,
        tags=["mbc", "memory", "retrieval"],
    )
    parts = [
        ("Base LM", f"{_code(settings.base)}, KV-LoRA of rank {settings.lora.rank}"),
        ("Document encoder", _encoder(settings.documents)),
        ("Question encoder", _encoder(settings.questions)),
        ("Codes of a chunk", f"{shape.tokens} tokens x {shape.levels} levels of {shape.num_codes:,} codes"),
        ("A chunk in a bank", f"{shape.bits_per_chunk} bits, {shape.bits_per_chunk / 8:g} bytes"),
        ("Read mode", f"`{settings.read}`"),
        ("Confidence of answers", "calibrated" if settings.confidence else "not calibrated"),
    ]
    return _CARD.format(
        front_matter=front_matter.to_yaml(),
        mark=MARK,
        name=repository.partition("/")[2],
        repository=repository,
        base=_code(settings.base),
        codes=shape.tokens * shape.levels,
        chunk_bytes=shape.bits_per_chunk / 8,
        parts=_table(parts),
        training=_training(config.training, history, command),
    )


def _training(settings: TrainingSettings, history: RunHistory | None, command: str | None) -> str:
    learning = f"learning rate {settings.learning_rate:g}, {settings.precision}, seed {settings.seed}"
    facts = [("Settings", f"{settings.epochs} epochs, batches of {settings.batch_size} questions, {learning}")]
    if history is None or history.started is None:
        return f"The model was shared without its training run and is **not evaluated**.\n\n{_table(facts)}"
    started, best = history.started, history.best
    measured = f"strict EM {best.exact_match:.1f} %, F1 {best.f1:.1f} %" if best else "**not evaluated**"
    if best and best.first_source is not None:
        measured += f", correct source ranked first {best.first_source:.1f} %"
    if best:
        measured += f", on {best.questions:,} held-out questions, {best.documents:,} documents in the bank"
    facts += [
        ("State", f"{history.state}, {history.step:,} of {history.total_steps:,} steps"),
        ("Data", f"{started.examples:,} questions about {started.documents:,} documents"),
        ("Trainable parameters", f"{started.trainable_parameters:,}"),
        ("Date", f"{datetime.fromtimestamp(history.last_time or 0, UTC):%Y-%m-%d}"),
        ("Best validation", measured),
    ]
    again = f"\n\n`config.toml` holds every setting:\n\n```sh\n{command}\n```" if command else ""
    return _table(facts) + again


def _encoder(own: EncoderSettings) -> str:
    return f"{_code(own.name)}, {'frozen' if own.frozen else 'fine-tuned'}, window of {own.window} tokens"


def _table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (("", ""), ("---", "---"), *rows))


def _code(text: str) -> str:
    """Foreign text as code: nothing of it is Markdown, or ends the code."""
    return f"`{re.sub(r'[`|<>]|[^ -~]', '?', text)}`"
