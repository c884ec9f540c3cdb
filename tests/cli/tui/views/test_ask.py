"""The Ask view: what it shows while a model is loading, answering or being stopped."""

import threading
from pathlib import Path

import numpy as np
import pytest
from textual import events
from textual.widgets import Select, Static, TextArea

from mbc_cli.paths import add_question, question_history, read_questions
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.widgets.answer import ChatTurn, Citation, PassagePane
from mbc_engine.events import DocumentsIngested
from mbc_engine.lm.base import BaseLM
from mbc_engine.runs.event_log import LogUpdate
from tests.cli.stub_memory import answer, source
from tests.cli.tui.conftest import SMALL, shown_keys

pytestmark = pytest.mark.usefixtures("bank")
QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM generate these pieces; functions among them are called."""

    def say(*answers):
        remaining = iter(answers)

        def generate(self, prefix, questions, *, on_token=print, **options):
            text = ""
            for piece in next(remaining):
                if callable(piece):
                    piece()
                else:
                    text += piece
                    on_token(piece)
            return [text]

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def asked(monkeypatch):
    """The questions asked, which no model answers."""
    monkeypatch.setattr(AnswerWorker, "_submit", lambda self, work: None)
    monkeypatch.setattr(AnswerWorker, "ask", lambda self, number, question, options: asked.append(question))
    asked = []
    return asked


async def ask(pilot, text):
    pilot.app.query_one("#question", TextArea).text = text
    await pilot.press("enter")


async def test_answer_with_sources_and_codes(app, says, until, screen):
    resume = threading.Event()
    says(("Aa[b]\x1b", resume.wait, "len"))
    async with app.run_test(size=SMALL) as pilot:
        await ask(pilot, QUESTION)
        await until(lambda: "Aa[b]␛" in screen(app))
        assert "len" not in screen(app)
        resume.set()
        await until(lambda: "2 sources" in screen(app))
        assert f"? {QUESTION}" in screen(app)
        assert "Aa[b]␛len" in screen(app)
        cited = [citation.source for citation in app.query(Citation)]
        assert {Path(source.path).name for source in cited} == {"ada.txt", "bruno.md"}
        assert sum(source.share for source in cited) == pytest.approx(1)
        assert app.state.codes_read.sum() == pytest.approx(1)
        await until(lambda: "codes read" in screen(app))
        aside = app.query_one("#aside")
        assert not aside.has_class("-open")
        await pilot.press("ctrl+o", "down", "enter")
        await until(lambda: aside.has_class("-open") and "Passage" in shown_keys(app))
        text = "The bridge held." if cited[1].path.endswith("bruno.md") else "The river rose."
        await until(lambda: text in str(app.query_one(PassagePane).query_one(".passage", Static).render()))
        await pilot.press("escape")
        assert not aside.has_class("-open")


async def test_wide_screen_shows_passage_and_codes(app, asked, until, screen):
    sources, codes = (source("/notes/ada.txt"), source("/notes/b.txt", None)), np.ones((1, 1, 8), np.float32)
    async with app.run_test(size=(160, 45)) as pilot:
        await ask(pilot, QUESTION)
        app.query_one(AskView).show_answer(1, answer("Aalen", *sources, codes=codes))
        await until(lambda: "2 sources" in screen(app) and "from the file" in screen(app))
        lines = [line.split("│")[0].strip(" ▁▃▅█") for line in screen(app).splitlines()]
        assert lines[lines.index("Aalen") + 1] == "82% confident (high), found in /notes/ada.txt"
        await until(lambda: "▶ Codes read" in screen(app))
        await pilot.press("ctrl+o", "down", "escape")
        assert app.query_one("#aside").has_class("-open") and "Passage" not in shown_keys(app)


async def test_questions_are_answered_in_order_until_stopped(app, says, until, screen):
    resume, has_stopped = threading.Event(), threading.Event()
    says((resume.wait, "one"), ("two",), ("Aa", has_stopped.wait, "len"), ("Bergen",))
    async with app.run_test(size=SMALL) as pilot:
        await ask(pilot, "First?")
        await until(lambda: "searching the bank" in screen(app))
        app.query_one("#number", Select).value = 1
        app.query_one("#how", Select).value = "flat"
        await ask(pilot, "Second?")
        assert "waiting for the previous answer" in screen(app) and "flat" in screen(app)
        resume.set()
        await until(lambda: len(app.query(Citation)) == 3)
        await ask(pilot, "Third?")
        await until(lambda: "Aa" in screen(app))
        await pilot.press("escape")
        await until(lambda: "Stopped." in screen(app))
        has_stopped.set()
        await ask(pilot, "Fourth?")
        await until(lambda: len(app.query(Citation)) == 4)
        turns = [(str(turn.query_one(".answer").render()), len(turn.query(Citation))) for turn in app.query(ChatTurn)]
        assert turns == [("one", 2), ("two", 1), ("Aa", 0), ("Bergen", 1)]


async def test_question_once_there_is_a_bank_of_the_model(app, bank, make_bank, record, says, until, screen):
    says(("Aalen",))
    away = bank.rename(bank.with_name("away.mbc"))

    def is_without_bank():
        return "ten made-up stories" in screen(app) and app.query_one("#turns").has_focus

    async with app.run_test(size=(100, 30)) as pilot:
        await until(is_without_bank)
        make_bank("other.mbc", record("/a.txt", "a")).rename(bank)
        await until(lambda: "mbc bank reencode" in screen(app) and app.query_one("#question").has_focus)
        bank.unlink()
        await until(is_without_bank)
        away.rename(bank)
        await until(lambda: app.query_one("#question").has_focus)
        await ask(pilot, QUESTION)
        await until(lambda: "2 sources" in screen(app) and "mbc bank reencode" not in screen(app))


async def test_question_line(app, options, asked, until, screen):
    def escape():
        return app.screen.active_bindings["escape"].binding.description

    for question in ("Who?", "Who \x1b[2Jis Ada?"):
        add_question(question_history(options.bank), question)
    add_question(question_history(options.bank.with_name("other.mbc")), "Who is Bo?")
    async with app.run_test(size=SMALL) as pilot:
        app._update_ingest(LogUpdate([(1.0, DocumentsIngested(1, 1, 0, 8, 1.0, ("/notes/ada.txt",)))]), False)
        await until(lambda: "Who ␛[2Jis Ada?" in screen(app).split("read last")[-1] and "/notes/ada.txt" in screen(app))
        line, turns = app.query_one("#question", TextArea), app.query_one("#turns")
        assert line.has_focus and escape() == "Leave"
        await pilot.press("escape")
        await until(lambda: turns.has_focus and "Sources" not in shown_keys(app))
        await pilot.press("escape")
        assert turns.has_focus
        await pilot.press("slash")
        assert line.has_focus
        line.text = "half"
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(line.text)
        assert seen == ["Who ␛[2Jis Ada?", "Who?", "Who?", "Who ␛[2Jis Ada?", "half", "half"]
        await ask(pilot, " When? ")
        await pilot.press("up")
        assert line.text == "When?"
        await until(lambda: read_questions(question_history(options.bank))[-1] == "When?")
        line.text = ""
        app.post_message(events.Paste("Where did Ada move?\r\nAnd\x1b Bruno?"))
        await until(lambda: line.size.height == 2)
        await pilot.press("enter")
        await until(lambda: asked == ["When?", "Where did Ada move?\nAnd␛ Bruno?"])
        await until(lambda: "  And␛ Bruno?" in screen(app))
        # Keys take effect in their order though several wait, as after a paste or over a slow connection.
        asked.clear()
        await ask(pilot, "Who?")
        keys = {"\r": "enter", "\b": "backspace", "<": "left", "^": "up"}
        for character in "^<se\rWhy\b\be\rAnd":
            app.post_message(events.Key(keys.get(character, character), None if character in keys else character))
        app.post_message(events.Paste(" when?"))
        app.post_message(events.Key("enter", "\r"))
        await until(lambda: len(asked) == 4)
        assert asked == ["Who?", "Whose?", "We", "And when?"]
