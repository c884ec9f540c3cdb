"""The data behind the figures: mini, and the ten stories and ten questions of `mbc demo`."""

import hashlib
from dataclasses import dataclass

from mbc_cli.commands.demo import as_file, pick_questions
from mbc_engine import MemoryBank, RetrieverReader, load_model
from mbc_engine.bank import Origin, StoredDocument
from mbc_engine.datasets.examples import QAExample, made_up_stories
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
    stories: list[QAExample]
    bank: MemoryBank
    questions: list[QAExample]


def make_example(count: int = 10) -> Example:
    """Memorise the first `count` stories of the demo."""
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    chosen = list(dict.fromkeys(asked.text for asked in made_up_stories()))[:count]
    questions = [asked for asked in made_up_stories() if asked.text in chosen]
    news = list({asked.text: asked for asked in questions}.values())
    bank = MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1], keeps_text=True)
    for story in news:
        text = as_text(story)
        chunks = model.chunker.chunks(text)
        assert len(chunks) == 1
        size, digest = len(text.encode()), hashlib.sha256(text.encode()).hexdigest()
        codes = model.memorise([chunks[0].text])
        bank.put([StoredDocument(digest, 1, size, (Origin(story.id, "", None),), codes, chunks)])
    return Example(model, news, bank, pick_questions(questions))


def as_text(story: QAExample) -> str:
    """A story as the demo writes it to a file."""
    return as_file(story).rstrip("\n")
