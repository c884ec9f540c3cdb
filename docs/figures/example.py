"""The data behind the figures: mini, and the 16 stories and ten questions of `mbc demo`."""

import hashlib
from dataclasses import dataclass

from mbc_cli.commands.demo import STORIES, pick_questions
from mbc_engine import MemoryBank, RetrieverReader, load_model
from mbc_engine.bank import Origin, StoredDocument
from mbc_engine.datasets.layout import QAExample
from mbc_engine.datasets.newswire import Story, stories
from mbc_engine.model import signature


@dataclass(frozen=True)
class Example:
    """Stories in a bank, one chunk each.

    Attributes:
        model: mini.
        stories: what was memorised, in the bank's order.
        bank: their codes and text.
        questions: some questions about them.
    """

    model: RetrieverReader
    stories: list[Story]
    bank: MemoryBank
    questions: list[QAExample]


def make_example(count: int = STORIES) -> Example:
    """Memorise the first `count` stories of the demo."""
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    chosen = list(stories("test", count, seed=0))
    bank = MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1], keeps_text=True)
    for story in chosen:
        text = as_text(story)
        chunks = model.chunker.chunks(text)
        assert len(chunks) == 1
        size, digest = len(text.encode()), hashlib.sha256(text.encode()).hexdigest()
        codes = model.memorise([chunks[0].text])
        bank.put([StoredDocument(digest, 1, size, (Origin(story.id, "", None),), codes, chunks)])
    return Example(model, chosen, bank, pick_questions(chosen))


def as_text(story: Story) -> str:
    """A story as the demo writes it to a file."""
    return f"{story.title}\n\n{story.text}"
