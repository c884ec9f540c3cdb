"""The place to ask: what stands in it while a model is loaded, answers, or is not wanted to any more."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, Select, Static

from mbc_cli.config import add_question, question_history, read_questions
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import Answering
from mbc_cli.tui.state import Places
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.widgets.answer import ChatTurn, Citation, PassagePane
from mbc_engine.bank import BankSizes, BankTotals
from mbc_engine.lm.base import BaseLM
from mbc_engine.question import Answer, Confidence, Label, Source
from tests.needs import embedded_encoder

QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the base LM say pieces; a function among them is called instead."""

    def say(*answers: tuple[Any, ...]) -> None:
        coming = iter(answers)

        def generate(self: BaseLM, prefix: object, questions: object, **options: Any) -> list[str]:
            text = ""
            for piece in next(coming):
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
def shown(places: Places) -> Dashboard:
    return Dashboard(places, AskView.NAME)


def _answers(app: Dashboard) -> list[str]:
    return [str(turn.query_one(".answer", Static).render()) for turn in app.query(ChatTurn)]


async def _type(pilot: Pilot[None], text: str) -> None:
    pilot.app.query_one("#question", Input).value = text
    await pilot.press("enter")


@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 45), marks=pytest.mark.slow)])
async def test_an_answer_comes_with_its_sources_and_lights_up_codes(
    shown: Dashboard, bank: Path, says: Any, until: Any, size: tuple[int, int], screen: Any
) -> None:
    is_wide = size[0] >= 120
    goes_on = threading.Event()
    says(("Aa[b]\x1b", goes_on.wait, "len"))
    async with shown.run_test(size=size) as pilot:
        await _type(pilot, QUESTION)
        await until(lambda: "Aa[b]␛" in screen(shown))
        assert "len" not in screen(shown)
        goes_on.set()
        await until(lambda: "2 sources" in screen(shown))
        assert f"? {QUESTION}" in screen(shown)
        assert "Aa[b]␛len" in screen(shown)
        cited = [citation.source for citation in shown.query(Citation)]
        assert {Path(own.path).name for own in cited} == {"ada.txt", "bruno.md"}
        assert sum(own.share for own in cited) == pytest.approx(1)
        assert shown.state.codes_read is not None
        assert shown.state.codes_read.sum() == pytest.approx(1)
        await until(lambda: "codes read" in screen(shown))
        assert shown.query_one("#aside").has_class("-open") == is_wide
        await pilot.press("ctrl+o", "down", "enter")
        await until(lambda: shown.query_one("#aside").has_class("-open"))
        text = "The bridge held." if cited[1].path.endswith("bruno.md") else "The river rose."
        await until(lambda: text in str(shown.query_one(PassagePane).query_one(Static).render()))
        await until(lambda: shown.query_one("#read").display == is_wide)
        await pilot.press("escape")
        assert shown.query_one("#aside").has_class("-open") == is_wide
        assert shown.query_one("#question", Input).has_focus


async def test_questions_are_answered_in_their_order_with_what_was_set(
    shown: Dashboard, bank: Path, says: Any, until: Any, screen: Any
) -> None:
    goes_on = threading.Event()
    says((goes_on.wait, "one"), ("two",))
    async with shown.run_test(size=(80, 24)) as pilot:
        await _type(pilot, "First?")
        await until(lambda: "searching the bank" in screen(shown))
        shown.query_one("#number", Select).value = 1
        shown.query_one("#how", Select).value = "flat"
        await _type(pilot, "Second?")
        assert "waiting for the previous answer" in screen(shown)
        goes_on.set()
        await until(lambda: len(shown.query(Citation)) == 3)
        assert [len(turn.query(Citation)) for turn in shown.query(ChatTurn)] == [2, 1]
        assert _answers(shown) == ["one", "two"]
        assert "flat" in screen(shown)


TEXT = "The river rose. Ada moved to Aalen\nin the spring. Ada moved a piano."


def _source(name: str, **changes: Any) -> Source:
    own = Source(
        path=f"/notes/{name}",
        part="",
        share=0.7,
        ties=0,
        state="unchanged",
        sentence="Ada moved to Aalen in the spring.",
        passage=TEXT,
        text_from="file",
        start=0,
        date=None,
        bank="memory.mbc",
    )
    return replace(own, **changes)


def _reply(answer: str | None, label: Label, *sources: Source) -> Answer:
    times, sizes = (
        {"search": 0.1, "answer": 0.0, "sources": 0.0},
        BankSizes(codes=27, words=40, texts=90, codebook=96, file=4096),
    )
    return Answer(QUESTION, answer, Confidence(0.93, label), sources, times, BankTotals(1, 1, 1), sizes)


async def _answer(app: Dashboard, pilot: Pilot[None], reply: Answer) -> None:
    """Ask, and let this be what comes back."""
    await _type(pilot, QUESTION)
    app.query_one(AskView).show_answer(len(app.query(ChatTurn)), reply)
    await pilot.pause()


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model answers by itself."""
    monkeypatch.setattr(Answering, "run", lambda self: None)


@pytest.mark.usefixtures("idle")
async def test_a_follow_up_is_shown_as_it_was_asked(shown: Dashboard, until: Any, screen: Any) -> None:
    async with shown.run_test(size=(120, 30)) as pilot:
        await _answer(shown, pilot, replace(_reply("Aalen", "high"), asked="Where did Ada move?"))
        await until(lambda: "Asked: Where did Ada move?" in screen(shown))


@pytest.mark.usefixtures("idle")
async def test_the_sentence_that_the_answer_was_read_in_is_underlined(
    shown: Dashboard, until: Any, screen: Any
) -> None:
    async with shown.run_test(size=(160, 45)) as pilot:
        await _answer(shown, pilot, _reply("Aalen", "high", _source("ada.txt"), _source("b.txt", sentence=None)))
        await until(lambda: "2 sources" in screen(shown))
        lines = [line.split("│")[0].strip(" ▁▃▅█") for line in screen(shown).splitlines()]
        first = lines.index("Aalen")
        assert lines[first + 1] == "93% confident (high), found in /notes/ada.txt"
        assert _answers(shown) == ["Aalen"]
        told = shown.query_one(PassagePane).query_one(Static).visual
        assert isinstance(told, Content)
        underlined = [told.plain[span.start : span.end] for span in told.spans if "underline" in str(span.style)]
        assert underlined == ["Ada moved to Aalen\nin the spring."]
        assert "from the file" in told.plain


@pytest.mark.usefixtures("idle")
async def test_text_of_a_file_that_is_gone_is_shown_as_the_banks_copy(
    shown: Dashboard, until: Any, screen: Any
) -> None:
    gone, lost = _source("ada.txt", state="gone", text_from="bank"), _source("b.txt", state="changed", text_from=None)
    async with shown.run_test(size=(80, 24)) as pilot:
        await _answer(shown, pilot, _reply("Aalen", "high", gone, replace(lost, sentence=None, passage=None)))
        await until(lambda: "2 sources" in screen(shown))
        assert "! the file no longer exists; this is the bank's copy" in screen(shown)
        await pilot.press("ctrl+o", "enter")
        await until(lambda: shown.query_one("#aside").has_class("-open"))
        await until(lambda: "Ada moved a piano." in screen(shown))
        await pilot.press("down", "enter")
        await until(lambda: "The text is no longer available." in screen(shown))
        assert "! the file has changed since; the bank keeps no copy" in screen(shown)


@pytest.mark.usefixtures("idle")
async def test_what_is_not_in_the_memory_is_said_with_the_closest_passages(
    shown: Dashboard, until: Any, screen: Any
) -> None:
    async with shown.run_test(size=(80, 24)) as pilot:
        await _answer(shown, pilot, _reply(None, "low", _source("ada.txt")))
        await until(lambda: "1 closest passage" in screen(shown))
        assert _answers(shown) == ["Not in this memory."]
        assert "confident" not in screen(shown)


@pytest.mark.usefixtures("idle")
async def test_a_read_is_chosen_only_for_a_model_that_has_several(shown: Dashboard, until: Any) -> None:
    async with shown.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for reads in ([], ["flat", "hierarchical"], []):
            shown.query_one(AskView).show_model("ready", None, reads)
            await until(lambda expected=bool(reads): shown.query_one("#how").display == expected)
            if reads:
                offered = [value for _, value in shown.query_one("#how", Select)._options]
                assert offered == ["", "flat", "hierarchical"]


async def test_escape_stops_an_answer_and_the_next_one_comes(
    shown: Dashboard, bank: Path, says: Any, until: Any, screen: Any
) -> None:
    has_stopped = threading.Event()
    says(("Aa", has_stopped.wait, "len"), ("Bergen",))
    async with shown.run_test(size=(80, 24)) as pilot:
        await _type(pilot, QUESTION)
        await until(lambda: "Aa" in screen(shown))
        await pilot.press("escape")
        await until(lambda: "Stopped." in screen(shown))
        has_stopped.set()
        await _type(pilot, "And Bruno?")
        await until(lambda: "2 sources" in screen(shown))
        assert _answers(shown) == ["Aa", "Bergen"]


async def test_what_is_wrong_is_told_and_the_next_question_tries_again(
    shown: Dashboard, bank: Path, home: Path, says: Any, until: Any, screen: Any
) -> None:
    says(("Aalen",))
    bank.rename(home / "away.mbc")
    async with shown.run_test(size=(80, 24)) as pilot:
        await until(lambda: "ten made-up stories" in screen(shown))
        await _type(pilot, QUESTION)
        await until(lambda: screen(shown).count("No bank at") == 2)
        (home / "away.mbc").rename(bank)
        await _type(pilot, QUESTION)
        await until(lambda: "2 sources" in screen(shown))


async def test_a_bank_of_another_model_is_told_with_the_way_out(
    shown: Dashboard, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    make_bank("memory.mbc", record("/a.txt", "a"))
    async with shown.run_test(size=(100, 30)):
        await until(lambda: "mbc bank reencode" in screen(shown))
        shown.query_one(AskView).show_model("ready", None, ["flat"])  # as when the right one has come
        await until(lambda: "mbc bank reencode" not in screen(shown))


async def test_questions_of_before_are_at_the_arrow_keys(shown: Dashboard, until: Any) -> None:
    add_question(question_history(), "Who?")
    add_question(question_history(), "Why?")
    async with shown.run_test(size=(80, 24)) as pilot:
        line = shown.query_one("#question", Input)
        await until(lambda: shown.query_one(AskView)._earlier)
        line.value = "half"
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(line.value)
        assert seen == ["Why?", "Who?", "Who?", "Why?", "half", "half"]
        await _type(pilot, " When? ")
        await pilot.press("up")
        assert line.value == "When?"
        await until(lambda: read_questions(question_history()) == ["Who?", "Why?", "When?"])


async def test_escape_leads_out_of_the_line_and_back_and_says_so(shown: Dashboard) -> None:
    def escape() -> str:
        return shown.screen.active_bindings["escape"].binding.description

    async with shown.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert shown.query_one("#question").has_focus and escape() == "Leave"
        await pilot.press("escape")
        await pilot.pause()
        assert (
            shown.focused is not shown.query_one("#question")
            and shown.focused is not shown.query_one("#question")
            and escape() == "Ask"
        )
        await pilot.press("escape")
        assert shown.focused is shown.query_one("#question")


@pytest.mark.slow
@embedded_encoder
async def test_the_embedded_model_answers(home: Path, notes: Path, mbc: Any, until: Any, screen: Any) -> None:
    assert mbc("ingest", notes, "--bank", "mini.mbc", "--model", "mini", "--workers", 0).exit_code == 0
    app = Dashboard(Places(home / "mini.mbc", "mini", home / "runs"), AskView.NAME)
    async with app.run_test(size=(160, 45)) as pilot:
        await _type(pilot, QUESTION)
        await until(lambda: "2 sources" in screen(app))
        assert _answers(app) == ["Aalen"]
        assert app.query(Citation).first().source.sentence == "Ada moved to Aalen in the spring."
        assert app.state.codes_read is not None
        assert app.state.bank is not None
        assert app.state.codes_read.shape == app.state.bank.counts.shape
