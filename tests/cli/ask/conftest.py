"""A scripted base LM, models with and without confidence, and handmade answers."""

import shutil

import pytest
from rich.console import Console

from mbc_engine.answer import Answer, Confidence, Source
from mbc_engine.bank import BankSizes, BankTotals
from mbc_engine.lm.base import BaseLM
from mbc_engine.paper.mbc import MBC

QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM say something."""

    def say(text):
        def generate(self, prefix, questions, *, on_token=None, **options):
            if on_token:
                for piece in text.partition("l"):
                    on_token(piece)
            return [text] * len(questions)

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def calibrated(model, home):
    """The tiny model, with confidences."""
    return _with_confidence(model, home / "calibrated", 1.0)


@pytest.fixture
def always_unsure(model, home):
    """The tiny model, calibrated on gains that say nothing."""
    return _with_confidence(model, home / "unsure", 0.0)


def _with_confidence(model, folder, slope):
    shutil.copytree(model, folder)
    with (folder / "config.toml").open("a") as file:
        file.write(f"[model.confidence]\nslope = {slope}\nintercept = 0.0\nfrom_memory = 0.8\nfrom_model = 0.2\n")
    return folder


@pytest.fixture
def gains(monkeypatch):
    """Sets by how much the bank raises the likelihood of every answer."""

    def gain(value):
        monkeypatch.setattr(MBC, "memory_gains", lambda self, reading, questions, answers: [value] * len(questions))

    return gain


@pytest.fixture
def source(home):
    """Makes a source, whose file is unchanged by default."""

    def make(name, sentence, **changes):
        fields = {
            "part": "",
            "share": 0.5,
            "ties": 0,
            "state": "unchanged",
            "passage": sentence,
            "text_from": "file",
            "start": 0,
            "date": None,
            "bank": str(home / "memory.mbc"),
        }
        return Source(path=str(home / name), sentence=sentence, **(fields | changes))

    return make


@pytest.fixture
def reply():
    """Makes an answer of a retriever-reader, with a probability of 0.82 by default."""

    def make(answer, *sources, probability=0.82, label="high"):
        return Answer(
            question=QUESTION,
            text=answer,
            confidence=Confidence(probability, label),
            sources=sources,
            seconds={"search": 0.01, "answer": 0.2, "sources": 0.03},
            totals=BankTotals(2, 2, 2),
            sizes=BankSizes(54, 40, 60, 4096, 8192),
        )

    return make


@pytest.fixture
def terminal(monkeypatch):
    """Shows answers as on a terminal."""
    for module in ("mbc_cli.render.answer", "mbc_cli.commands.ask", "mbc_cli.commands.chat"):
        monkeypatch.setattr(f"{module}.out", Console(force_terminal=True, width=80, color_system=None))
