"""What the base LM, a reader and the bank's gain are told to say, and models that know confidence or not."""

import shutil
from types import SimpleNamespace

import pytest
from rich.console import Console

from mbc_engine.mini.span_reader import Span
from mbc_engine.model.base import BaseLM
from mbc_engine.model.mbc import MBC

QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM say something, and something else when it has passages to read."""

    def say(text, after_reading="nothing"):
        def generate(self, prefix, questions, *, passages=None, said=None, **options):
            if said:
                for piece in text.partition("l"):
                    said(piece)
            return [text if passages is None else after_reading] * len(questions)

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def reads(monkeypatch):
    """Makes every model have a reader that finds a text in the first passage that holds it."""

    def read(text):
        def span(passage):
            at = passage.find(text)
            return Span(text, 0, at, at + len(text), 1.0) if at >= 0 else None

        reader = SimpleNamespace(
            spans=lambda questions, passages: [[span(passage) for passage in own] for own in passages],
            prior_weight=0.0,
            threshold=0.0,
        )
        monkeypatch.setattr("mbc_engine.serving.read_answer.own_reader", lambda model: reader)

    return read


@pytest.fixture
def calibrated(model, home):
    """The tiny model, with confidences."""
    return _with_confidence(model, home / "calibrated", 1.0)


@pytest.fixture
def always_unsure(model, home):
    """The tiny model, whose gains told its calibration nothing."""
    return _with_confidence(model, home / "unsure", 0.0)


def _with_confidence(model, folder, slope):
    shutil.copytree(model, folder)
    with (folder / "config.toml").open("a") as file:
        file.write(f"[model.confidence]\nslope = {slope}\nintercept = 0.0\nfrom_memory = 0.8\nfrom_model = 0.2\n")
    return folder


@pytest.fixture
def gains(monkeypatch):
    """Makes the bank add so much to the likelihood of every answer."""

    def gain(value):
        monkeypatch.setattr(MBC, "memory_gains", lambda self, reading, questions, answers: [value] * len(questions))

    return gain


@pytest.fixture
def terminal(monkeypatch):
    """Makes stdout a terminal to what shows answers."""
    for module in ("mbc_cli.render.reply", "mbc_cli.commands.ask.one"):
        monkeypatch.setattr(f"{module}.out", Console(force_terminal=True, width=80, color_system=None))
