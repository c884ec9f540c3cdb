"""A model card: what a shared model is, how it was trained and how good it is, from its config and its training run.

Nothing is claimed that the run has not recorded: a model that was not evaluated says so.
"""

from datetime import UTC, datetime
from typing import Final

from huggingface_hub import ModelCardData

from mbc_engine.config import EMBEDDED, Config
from mbc_engine.runs.training_runs import RunHistory
from mbc_engine.sharing import code_shape

# A card without this line was written by hand, and is left alone.
MARK: Final = "<!-- Written by mbc models push. Without this line, the card is yours and stays as it is. -->"

_CARD: Final = """\
---
{front_matter}
---
{mark}

# {repository}

A compressed long-term memory for `{base}`. It turns a piece of text into {tokens} tokens x {levels} levels of {codes} \
codes, {size:g} bytes, without a gradient step, and answers questions from the codes of all documents, with sources. The \
base LM and frozen encoders are not included but loaded by name, each under its own licence.

## Use

```sh
mbc models pull {repository}
mbc ingest FOLDER --model {repository} --bank my.mbc
mbc ask "..." --model {repository} --bank my.mbc
```

## Training

{training}

## Limits

- {size:g} bytes hold no text word for word: names, numbers and dates can come out wrong. Check the sources of an answer.
- A bank belongs to the model that wrote it and cannot be read by any other.
- Validation questions are of the same kind as the training questions; expect less on other texts.

## Settings

```toml
{settings}
```
"""


def model_card(
    config: Config, repository: str, *, licence: str | None, history: RunHistory | None, command: str | None
) -> str:
    """The card as Markdown, with its front matter; `command` trains the same model with its config."""
    shape, base = code_shape(config.model), config.model.base
    front_matter = ModelCardData(
        library_name="mbc",
        pipeline_tag="question-answering",
        base_model=None if base.startswith(EMBEDDED) else base,
        license=licence,
        tags=["mbc", "memory", "retrieval"],
    )
    return _CARD.format(
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
    started, best = history.started, history.best
    measured = f"strict EM {best.exact_match:.1f} %, F1 {best.f1:.1f} %" if best else "**not evaluated**"
    if best and best.first_source is not None:
        measured += f", correct source ranked first {best.first_source:.1f} %"
    if best:
        measured += f", on {best.questions:,} held-out questions, {best.documents:,} documents in the bank"
    again = f"\n\n```sh\n{command}\n```" if command else ""
    return (
        f"- Data: {started.examples:,} questions about {started.documents:,} documents.\n"
        f"- State: {history.state}, {history.step:,} of {history.total_steps:,} steps, "
        f"{datetime.fromtimestamp(history.last_time or 0, UTC):%Y-%m-%d}.\n"
        f"- Trainable parameters: {started.trainable_parameters:,}.\n"
        f"- Best validation: {measured}.{again}"
    )
