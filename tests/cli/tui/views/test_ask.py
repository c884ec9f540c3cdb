"""The Ask view: what it shows while a model is loading, answering or being stopped."""

import threading
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Select, Static, TextArea

from mbc_cli.config import add_question, question_history, read_questions
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.widgets.answer import ChatTurn, Citation, PassagePane
from mbc_engine.answer import Confidence
from mbc_engine.events import DocumentsIngested
from mbc_engine.lm.base import BaseLM
from mbc_engine.runs.event_log import LogUpdate
from tests.cli.stub_memory import answer, source
from tests.cli.tui.conftest import shown_keys

QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM generate these pieces; functions among them are called."""

    def say(*answers):
        remaining = iter(answers)

        def generate(self, prefix, questions, **options):
            text = ""
            for piece in next(remaining):
                if callable(piece):
                    piece()
                    continue
                text += piece
                if options.get("on_token"):
                    options["on_token"](piece)
            return [text]

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def app(options, bank):
    return Dashboard(options, AskView.NAME)


def _answers(app):
    return [str(turn.query_one(".answer", Static).render()) for turn in app.query(ChatTurn)]


async def _type(pilot, text):
    pilot.app.query_one("#question", TextArea).text = text
    await pilot.press("enter")


@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 45), marks=pytest.mark.slow)])
async def test_answer_with_sources_and_codes(app, bank, says, until, size, screen):
    is_wide = size[0] >= 120
    resume = threading.Event()
    says(("Aa[b]\x1b", resume.wait, "len"))
    async with app.run_test(size=size) as pilot:
        await _type(pilot, QUESTION)
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
        assert app.query_one("#aside").has_class("-open") == is_wide
        await pilot.press("ctrl+o", "down", "enter")
        await until(lambda: app.query_one("#aside").has_class("-open"))
        assert ("Passage" in shown_keys(app)) != is_wide  # where it is shown already
        text = "The bridge held." if cited[1].path.endswith("bruno.md") else "The river rose."
        await until(lambda: text in str(app.query_one(PassagePane).query_one(".passage", Static).render()))
        await until(lambda: ("▶ Codes read" in screen(app)) == is_wide)
        await pilot.press("escape")
        assert app.query_one("#aside").has_class("-open") == is_wide


async def test_questions_are_answered_in_order(app, bank, says, until, screen):
    resume = threading.Event()
    says((resume.wait, "one"), ("two",))
    async with app.run_test(size=(80, 24)) as pilot:
        await _type(pilot, "First?")
        await until(lambda: "searching the bank" in screen(app))
        app.query_one("#number", Select).value = 1
        app.query_one("#how", Select).value = "flat"
        await _type(pilot, "Second?")
        assert "waiting for the previous answer" in screen(app)
        resume.set()
        await until(lambda: len(app.query(Citation)) == 3)
        assert [len(turn.query(Citation)) for turn in app.query(ChatTurn)] == [2, 1]
        assert _answers(app) == ["one", "two"]
        assert "flat" in screen(app)


TEXT = "The river rose. Ada moved to Aalen\nin the spring. Ada moved a piano."


def _source(name, **changes):
    sentence = "Ada moved to Aalen in the spring."
    return source(f"/notes/{name}", **{"sentence": sentence, "passage": TEXT, "share": 0.7, **changes})


def _reply(text, *sources, label="high", **changes):
    return answer(text, *sources, question=QUESTION, confidence=Confidence(0.93, label), **changes)


async def _answer(app, pilot, reply):
    """Ask a question, and show this reply."""
    await _type(pilot, QUESTION)
    app.query_one(AskView).show_answer(len(app.query(ChatTurn)), reply)
    await pilot.pause()


@pytest.fixture
def idle(monkeypatch):
    """No model answers."""
    monkeypatch.setattr(AnswerWorker, "_submit", lambda self, work: None)


@pytest.mark.usefixtures("idle")
async def test_sentence_is_underlined(app, until, screen):
    async with app.run_test(size=(160, 45)) as pilot:
        await _answer(app, pilot, _reply("Aalen", _source("ada.txt"), _source("b.txt", sentence=None)))
        await until(lambda: "2 sources" in screen(app))
        lines = [line.split("│")[0].strip(" ▁▃▅█") for line in screen(app).splitlines()]
        first = lines.index("Aalen")
        assert lines[first + 1] == "93% confident (high), found in /notes/ada.txt"
        assert _answers(app) == ["Aalen"]
        passage = app.query_one(PassagePane).query_one(".passage", Static).visual
        underlined = [passage.plain[span.start : span.end] for span in passage.spans if "underline" in str(span.style)]
        assert underlined == ["Ada moved to Aalen\nin the spring."]
        assert "from the file" in screen(app)


async def test_escape_stops_an_answer(app, bank, says, until, screen):
    has_stopped = threading.Event()
    says(("Aa", has_stopped.wait, "len"), ("Bergen",))
    async with app.run_test(size=(80, 24)) as pilot:
        await _type(pilot, QUESTION)
        await until(lambda: "Aa" in screen(app))
        await pilot.press("escape")
        await until(lambda: "Stopped." in screen(app))
        has_stopped.set()
        await _type(pilot, "And Bruno?")
        await until(lambda: "2 sources" in screen(app))
        assert _answers(app) == ["Aa", "Bergen"]


async def test_question_once_there_is_a_bank(app, bank, home, says, until, screen):
    says(("Aalen",))
    bank.rename(home / "away.mbc")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "ten made-up stories" in screen(app) and app.query_one("#turns").has_focus)
        (home / "away.mbc").rename(bank)
        await until(lambda: app.query_one("#question").has_focus)
        await _type(pilot, QUESTION)
        await until(lambda: "2 sources" in screen(app))


async def test_bank_of_another_model(options, make_bank, record, until, screen):
    make_bank("memory.mbc", record("/a.txt", "a"))
    app = Dashboard(options)
    async with app.run_test(size=(100, 30)):
        await until(lambda: "mbc bank reencode" in screen(app))
        app.query_one(AskView).show_model("ready", None, ["flat"])  # as when the right bank has appeared
        await until(lambda: "mbc bank reencode" not in screen(app))


@pytest.mark.usefixtures("idle")
async def test_recent_questions(app, bank, options, until, screen):
    for question in ("Who?", "Who \x1b[2Jis Ada?"):
        add_question(question_history(options.bank), question)
    add_question(question_history(bank.with_name("other.mbc")), "Who is Bo?")
    async with app.run_test(size=(80, 24)) as pilot:
        app._update_ingest(LogUpdate([(1.0, DocumentsIngested(1, 1, 0, 8, 1.0, ("/notes/ada.txt",)))]), False)
        await until(lambda: "Who ␛[2Jis Ada?" in screen(app).split("read last")[-1] and "/notes/ada.txt" in screen(app))
        line = app.query_one("#question", TextArea)
        line.text = "half"
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(line.text)
        assert seen == ["Who ␛[2Jis Ada?", "Who?", "Who?", "Who ␛[2Jis Ada?", "half", "half"]
        await _type(pilot, " When? ")
        await pilot.press("up")
        assert line.text == "When?"
        await until(lambda: read_questions(question_history(options.bank))[-1] == "When?")


async def test_escape_and_pasting(app, until, screen, monkeypatch):
    def escape():
        return app.screen.active_bindings["escape"].binding.description

    asked = []
    monkeypatch.setattr(AnswerWorker, "ask", lambda self, number, question, options: asked.append(question))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.query_one("#question").has_focus and escape() == "Leave"
        await pilot.press("escape")
        await pilot.pause()
        assert app.query_one("#turns").has_focus and "Sources" not in shown_keys(app)
        await pilot.press("escape")
        assert app.query_one("#turns").has_focus
        await pilot.press("slash")
        assert app.query_one("#question").has_focus
        app.post_message(events.Paste("Where did Ada move?\r\nAnd\x1b Bruno?"))
        await until(lambda: app.query_one("#question").size.height == 2)
        await pilot.press("enter")
        await until(lambda: asked == ["Where did Ada move?\nAnd␛ Bruno?"])
        await until(lambda: "  And␛ Bruno?" in screen(app))
