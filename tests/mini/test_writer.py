"""Answers that an LM writes: what it is given, what is made of its reply, and when it is not asked."""

from pathlib import Path

import pytest

from mbc_engine import Memory
from mbc_engine.lm.chat import ChatLM
from mbc_engine.mini.writer import Writer, load_writer


class Scripted(ChatLM):
    """Replies what it is told to, in pieces of three characters."""

    name = "scripted"

    def __init__(self, said):
        self.said, self.given = said, list[tuple[str, str]]()

    def reply(self, text, question, *, max_new_tokens, on_token=None):
        self.given.append((text, question))
        for start in range(0, len(self.said), 3):
            if on_token is not None:
                on_token(self.said[start : start + 3])
        return self.said.strip()


@pytest.fixture
def ask(tiny, remember, folder):
    """Asks who won, four stories that say nobody did."""

    def ask(lm, *, reads=True, perhaps=0.0, sure=0.0, **options):
        model = tiny.retriever_reader("Nobody", perhaps=perhaps)
        confidence = model.reader_settings.confidence.model_copy(update={"sure": max(sure, perhaps)})
        model.reader_settings = model.reader_settings.model_copy(update={"confidence": confidence})
        memory: Memory = remember(model, folder)
        memory.writer = Writer(lm, reads_passages=reads)
        streamed: list[str] = []
        (answer,) = memory.ask(["Who won?"], write=True, on_token=streamed.append, **options)
        return answer, "".join(streamed).strip()

    return ask


def test_an_lm_reads_numbered_passages(ask):
    lm = Scripted("Nobody won [1]. It rained in the north [2].")
    answer, streamed = ask(lm, sources=1)
    ((text, question),) = lm.given
    assert question == "Question: Who won?"
    passages = text.split("\n\n")[1:]
    assert len(passages) == len(answer.sources) == 4  # as many as there are, to be cited
    for number, (passage, source) in enumerate(zip(passages, answer.sources, strict=True), 1):
        assert passage == f"[{number}] ({Path(source.path).name} {source.date})\n{source.passage}"
    assert answer.text == streamed == lm.said
    assert (answer.extracted, answer.written_by, answer.unsupported) == ("Nobody", "scripted", ())
    assert not answer.tentative


def test_an_lm_is_told_what_was_said_before(ask):
    lm = Scripted("Nobody won [1].")
    ask(lm, earlier=(("Who came?", "Ada"),))
    assert lm.given[0][1] == "Earlier question: Who came?\nIts answer: Ada\n\nQuestion: Who won?"


def test_what_is_not_in_the_passages_is_told(ask):
    answer, _ = ask(Scripted("Nobody won [1]. Ada Holm won in 1931 [2]."))
    assert answer.unsupported == ("Ada Holm won in 1931 [2].",)
    assert answer.tentative


def test_what_is_not_what_was_found_is_doubted(ask):
    answer, _ = ask(Scripted("It rained in the north [2]."))
    assert (answer.unsupported, answer.extracted, answer.tentative) == ((), "Nobody", True)


@pytest.mark.parametrize("said", ["NOT FOUND", "Not found.", "NOT FOUND. The passages are about rain.", ""])
@pytest.mark.parametrize(("perhaps", "text"), [(0.0, "Nobody"), (1.0, None)])
def test_the_answer_stands_if_the_lm_finds_none(ask, said, perhaps, text):
    answer, streamed = ask(Scripted(said), perhaps=perhaps, sources=2)
    assert (answer.text, answer.written_by, streamed) == (text, None, "")
    assert len(answer.sources) == 2


def test_an_lm_is_asked_where_nothing_was_extracted(ask):
    answer, streamed = ask(Scripted("No"), perhaps=1.0)
    assert answer.text == streamed == "No"
    assert (answer.extracted, answer.written_by) == (None, "scripted")
    lm = Scripted("Nobody [1].")
    assert ask(lm, perhaps=1.0, min_confidence=1.0)[0].text is None
    assert not lm.given  # withheld, as asked for


def test_the_embedded_lm_only_rephrases_the_quotation(ask):
    lm = Scripted("Nobody won.")
    answer, streamed = ask(lm, reads=False, sources=0)
    ((text, question),) = lm.given
    assert text.endswith("Nobody won.")
    assert question == "Question: Who won?\nShort answer: Nobody"
    assert answer.text == streamed == "Nobody won."
    assert (answer.extracted, answer.written_by, answer.sources) == ("Nobody", "scripted", ())


def test_small_talk_is_not_searched_for(tiny, remember, folder):
    memory = remember(tiny.retriever_reader("Nobody"), folder)
    memory.writer = Writer(Scripted("Nobody won."), reads_passages=False)
    assert memory.ask(["Thanks!"], write=True)[0].text == "You are welcome."


@pytest.mark.parametrize(
    ("options", "is_written"),
    [
        ({"perhaps": 1.0}, False),
        ({"sure": 1.0}, False),
        ({"sure": 1.0, "min_confidence": 0.0}, True),
        ({"max_new_tokens": 9}, True),
    ],
)
def test_only_sure_quotations_are_rephrased(ask, options, is_written):
    answer, _ = ask(Scripted("Nobody won."), reads=False, **options)
    assert (answer.written_by is not None) is is_written


def test_a_memory_with_an_lm_writes_unless_told_not_to(tiny, remember, folder, chat_lm, tmp_path):
    remember(tiny.retriever_reader("Nobody"), folder)
    with Memory(tmp_path / "b.mbc", tiny.retriever_reader("Nobody"), llm=str(chat_lm)) as memory:
        (written,) = memory.ask(["Who won?"])
        (quoted,) = memory.ask(["Who won?"], write=False)
    assert (written.written_by, quoted.written_by) == (str(chat_lm), None)
    assert (written.extracted, quoted.text) == ("Nobody", "Nobody")
    assert load_writer(str(chat_lm)).reads_passages
