"""Answers that a retriever-reader extracts, with a tiny encoder and a reader that finds given words."""

import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mbc_engine import Memory, Selection, ingest, open_bank
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.mini.span_reader import SpanReader
from mbc_engine.sources import Files
from tests.conftest import SENTENCES
from tests.finder import random_head

STORIES = [f"Story {number}. Nobody won." for number in range(8)]


def without_origin(answer):
    """An answer without where the text came from."""
    return answer.text, answer.confidence, [(own.path, own.share, own.sentence, own.passage) for own in answer.sources]


def test_answer_with_its_sentence_and_file(tiny, remember, rows):
    texts = ["Hugo won. The bridge held.", "It rained. Ada moved\n to Aalen. Nobody won."]
    path = rows(texts)
    (answer,) = remember(tiny.retriever_reader("Aalen"), path).ask(["Where did Ada move?"])
    assert (answer.text, answer.confidence.label) == ("Aalen", "high")
    source = answer.sources[0]
    assert (source.path, source.part, source.sentence) == (str(path), "1", "Ada moved to Aalen.")
    assert (source.passage, source.text_from, source.start) == (texts[1], "file", 0)
    assert {source.part for source in answer.sources} == {"0", "1"}


def test_several_questions_on_a_line(tiny, remember, rows):
    memory = remember(tiny.retriever_reader("Aalen"), rows(["Ada moved to Aalen."]))
    one, both, none = memory.ask(["Where did Ada move?", "Where did Ada move? And who won?", ""])
    assert (one.text, one.items, none.question) == ("Aalen", (), "")
    assert both.text == "Where did Ada move? Aalen\nwho won? Aalen"
    assert [(item.text, item.source.sentence) for item in both.items] == [
        (line, "Ada moved to Aalen.") for line in both.text.splitlines()
    ]
    assert (both.question, both.confidence) == ("Where did Ada move? And who won?", one.confidence)
    assert len(both.sources) == 1


def test_figures_are_worked_out_from_all_rows_of_a_table(tiny, remember, tmp_path, monkeypatch):
    """Not only from those found; and not from another table, nor from one too large to be read whole."""
    for name, factor in (("pulse", 1), ("weight", 100)):
        rows = "".join(f"2024-01-{day:02},{factor * (60 + day % 9)}\n" for day in range(1, 31))
        (tmp_path / f"{name}.csv").write_text(f"day,{name}\n{rows}")
    memory = remember(tiny.retriever_reader("Aalen"), tmp_path)
    highest, total = memory.ask(["What was the highest pulse?", "What is the total weight?"])
    assert (highest.text, highest.confidence, highest.tentative) == ("68", None, False)
    assert highest.items[0].source.sentence == "day: 2024-01-08; pulse: 68"
    assert (total.text, len(total.items)) == (str(100 * sum(60 + day % 9 for day in range(1, 31))), 10)
    assert {Path(item.source.path).name for item in total.items} == {"weight.csv"}
    assert memory.ask(["What was the highest pulse?"], selection=Selection(only=("*.csv",)))[0].confidence is not None
    monkeypatch.setattr("mbc_engine.mini.tables._MOST_ROWS", 20)
    assert memory.ask(["What was the highest pulse?"])[0].confidence is not None  # as the reader has it


def test_figures_are_not_worked_out_if_several_tables_have_them(tiny, remember, tmp_path):
    for name in ("ada", "hugo", "hugo OLD"):
        (tmp_path / f"{name}.csv").write_text(f"day,pulse of {name[:4].strip()}\n2024-06-01,60\n2024-06-02,70\n")
    memory = remember(tiny.retriever_reader("Aalen"), tmp_path)
    one, several = memory.ask(["What was the highest pulse of ada?", "What was the highest pulse?"])
    assert (one.text, one.confidence) == ("70", None)
    assert several.confidence is not None


def test_figures_of_this_year_are_of_the_latest_table(tiny, remember, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"pulse {year}.csv").write_text(f"day,pulse\n{year}-06-01,60\n{year}-06-02,{year - 1950}\n")
    memory = remember(tiny.retriever_reader("Aalen"), tmp_path)
    now, whenever = memory.ask(["What was the highest pulse this year?", "What was the highest pulse?"])
    assert (now.text, now.confidence) == ("74", None)
    assert whenever.confidence is not None


def test_figures_of_one_of_several_banks(tiny, remember, tmp_path):
    model = tiny.retriever_reader("Aalen")
    for name in ("pulse", "weight"):
        (tmp_path / f"{name}.csv").write_text(f"day,{name}\n2024-06-01,60\n2024-06-02,70\n")
        with open_bank(model, tmp_path / f"{name}.mbc") as bank:
            list(ingest(model, bank, [tmp_path / f"{name}.csv"]))
    with Memory([tmp_path / "pulse.mbc", tmp_path / "weight.mbc"], model) as memory:
        assert [answer.text for answer in memory.ask(["What is the highest pulse?", "total weight"])] == ["70", "130"]


def test_small_talk_is_answered_without_a_search(tiny, remember, rows):
    thanks, where = remember(tiny.retriever_reader("Aalen"), rows(["Ada moved to Aalen."])).ask(["Thanks!", "Where?"])
    assert (thanks.text, thanks.sources, thanks.confidence) == ("You are welcome.", (), None)
    assert (where.text, len(where.sources)) == ("Aalen", 1)


def test_passages_for_key_words(tiny, remember, rows):
    path = rows(["Ada moved to Aalen.", "Hugo moved to Delft."])
    (answer,) = remember(tiny.retriever_reader("Aalen"), path).ask(["ada moved"])
    assert (answer.text, answer.items) == ("Aalen", ())
    found, none = remember(tiny.retriever_reader("Paris"), path).ask(["ada moved", "ada left"])
    assert (found.text, len(found.items), found.confidence, none.text) == ("Ada moved to Aalen.", 1, None, None)


TYPED = "Where did Ada's brother move?"


@pytest.fixture(scope="module")
def memory_of_sentences(tiny, tmp_path_factory):
    """A small bank with a reader that looks at the question."""
    folder = tmp_path_factory.mktemp("sentences")
    for number, text in enumerate(SENTENCES):
        (folder / f"{number}.txt").write_text(text)
    model = tiny.retriever_reader()
    vars(model)["reader"] = SpanReader(model.encoder, random_head(24, 4), window=48)
    with open_bank(model, folder / "b.mbc") as bank:
        list(ingest(model, bank, sorted(folder.glob("*.txt"))))
        yield Memory(bank, model)


def test_capitals_spaces_and_question_marks_do_not_matter(memory_of_sentences):
    ask, search = memory_of_sentences.ask, memory_of_sentences.search
    for typed in (
        TYPED.lower()[:-1],
        TYPED.upper().replace("'", "\u2019"),
        "Where  did Ada's\nbrother move ?",
        f"{TYPED}?!",
    ):
        first, again = ask([TYPED, typed], min_confidence=0)
        assert again.confidence.probability == pytest.approx(first.confidence.probability, rel=1e-5)
        assert replace(again, question=TYPED, confidence=first.confidence) == first
        assert search([typed]) == search([TYPED])


@pytest.mark.parametrize("kind", ["mini", "paper"])
def test_same_answers_without_the_files(tiny, remember, folder, kind):
    model = tiny.retriever_reader("Nobody", "north") if kind == "mini" else tiny.model()
    questions, memory = ["Who won?", "Where did it rain?"], remember(model, folder, keeps_text=True)
    before = memory.ask(questions)
    (folder / "0.txt").write_text("Changed since.")
    changed = memory.ask(questions)
    shutil.rmtree(folder)
    after = memory.ask(questions)
    expected = list(map(without_origin, before))
    assert list(map(without_origin, changed)) == list(map(without_origin, after)) == expected
    assert all(source.sentence for answer in before for source in answer.sources)
    assert {source.text_from for answer in before for source in answer.sources} == {"file"}
    assert {source.text_from for answer in after for source in answer.sources} == {"bank"}
    states = {(source.state, source.text_from) for source in changed[0].sources}
    assert states <= {("unchanged", "file"), ("changed", "bank")}


def test_bank_without_text(tiny, remember, folder):
    memory = remember(tiny.retriever_reader("Nobody"), folder, keeps_text=False)
    (answer,) = memory.ask(["Who won?"])
    assert (answer.text, answer.sources[0].text_from) == ("Nobody", "file")
    shutil.rmtree(folder)
    with pytest.raises(BankError, match="no longer available"):
        memory.ask(["Who won?"])
    assert {source.passage for source in memory.search(["Who won?"])[0]} == {None}


def test_only_files_of_sources_are_read_to_answer(tiny, remember, folder, monkeypatch):
    looked_at: list[str] = []
    look = Files.look
    monkeypatch.setattr(Files, "look", lambda files, *of: looked_at.append(of[0].source) or look(files, *of))
    memory = remember(tiny.retriever_reader("Nobody"), folder)
    assert len(list(folder.iterdir())) > 2
    (answer,) = memory.ask(["Who won?"], sources=2)
    assert looked_at == sorted(source.path for source in answer.sources)
    assert {source.state for source in answer.sources} == {"unchanged"}


@pytest.mark.parametrize("keeps_text", [True, False])
def test_files_are_not_read_for_long_if_the_bank_has_the_text(tiny, remember, folder, monkeypatch, keeps_text):
    monkeypatch.setattr("mbc_engine.sources.MOST_SECONDS", -1.0)
    for path in folder.iterdir():
        path.unlink()
    (folder / "a.jsonl").write_text('{"text": "Ada won."}\n{"text": "Ada won."}\n{"text": "Nobody won."}')
    memory = remember(tiny.retriever_reader("Nobody"), folder, keeps_text=keeps_text)
    found = {(source.state, source.text_from) for source in memory.ask(["Who won?"])[0].sources}
    assert ("unknown", "bank") in found if keeps_text else found == {("unchanged", "file")}


def test_withheld_answers_still_have_sources(tiny, remember, folder):
    model = tiny.retriever_reader("Nobody", perhaps=1.0)
    memory = remember(model, folder)
    (withheld,) = memory.ask(["Who won?"])
    (answer,) = memory.ask(["Who won?"], min_confidence=0)
    assert (withheld.text, withheld.tentative, answer.text, answer.tentative) == (None, False, "Nobody", True)
    confidence = model.reader_settings.confidence.model_copy(update={"perhaps": 0.5})
    model.reader_settings = model.reader_settings.model_copy(update={"confidence": confidence})
    assert all(memory.ask(["Who won?"], min_confidence=minimum)[0].tentative for minimum in (None, 0.3))
    assert memory.ask(["Who won?"], min_confidence=1)[0].withheld
    assert not withheld.withheld
    assert withheld.confidence == answer.confidence
    assert len(withheld.sources) == len(answer.sources) == 3
    assert all(source.sentence == "Nobody won." for source in withheld.sources)


def test_further_chunks_are_read_if_the_first_have_no_answer(tiny, remember, rows):
    model = tiny.retriever_reader("Hugo", "Ada")
    memory = remember(model, rows([*STORIES[:4], "Story 4. Hugo won.", "Story 5. Ada won."]))
    ranked = [source.passage for source in memory.search(["Who won the race?"], top=6)[0]]  # all are equally likely

    def read(passages, further):
        model.reader_settings = model.reader_settings.model_copy(update={"passages": passages, "further": further})
        model.reader.asked.clear()
        return memory.ask(["Who won the race?"])[0].text, [texts for _, texts in model.reader.asked]

    assert read(6, 3) == ("Hugo", [ranked])
    assert read(5, 3) == ("Hugo", [ranked[:5]])
    assert read(1, 3) == (None, [ranked[:1], ranked[1:4]])
    assert read(1, 9) == ("Hugo", [ranked[:1], ranked[1:]])


def test_a_document_is_named_once(tiny, remember, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"The old painter moved to place {number} in the spring. " for number in range(20)))
    memory = remember(tiny.retriever_reader("place 7"), path)
    assert memory.info()[1].chunks > 5
    (answer,) = memory.ask(["Where did he move?"], min_confidence=0)
    [(_, read)] = memory.model.reader.asked
    (source,) = answer.sources
    assert (len(read), source.path) == (4, str(path))
    assert path.read_text()[source.start : source.start + len(source.passage)] == source.passage


def test_the_same_text_in_several_places_is_one_source(tiny, remember, tmp_path):
    folder = tmp_path / "copies"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "sub/a.txt", "a.md", "b.txt"):
        (folder / name).write_text("Nobody won.")
    (folder / "crlf.txt").write_text("Nobody\r\nwon.", newline="")
    (folder / "c.txt").write_text("It rained in the north.")
    memory = remember(tiny.retriever_reader("Nobody"), folder)

    def places(sources):
        names = ([source.path, *source.others] for source in sources)
        return sorted(sorted(Path(name).relative_to(folder).as_posix() for name in each) for each in names)

    copies = ["a.md", "a.txt", "b.txt", "crlf.txt", "sub/a.txt"]
    (found,) = memory.search(["Who won?"], top=2)
    assert places(found) == [copies, ["c.txt"]]
    (answer,) = memory.ask(["Who won?"], sources=9, min_confidence=0)
    assert (answer.text, places(answer.sources)) == ("Nobody", [copies, ["c.txt"]])
    assert sum(source.share for source in answer.sources) == pytest.approx(1, abs=0.01)


def test_codes_of_the_chunks_that_were_read(tiny, folder, tmp_path):
    model = tiny.retriever_reader("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        answer, plain = (Memory(bank, model).ask(["Who won?"], with_codes=codes)[0] for codes in (True, False))
        counts = bank.counts()
    assert plain.codes is None
    assert answer.codes.shape == counts.shape
    assert answer.codes.sum() == pytest.approx(1, rel=1e-5)
    assert not answer.codes[counts == 0].any()


def test_read_modes_are_for_the_papers_method(tiny, remember, folder):
    memory = remember(tiny.retriever_reader("Nobody"), folder)
    with pytest.raises(ConfigError, match="--read does not apply"):
        memory.ask(["Who won?"], read_mode="flat")


def test_several_banks_answer_as_one_of_all(tiny, tmp_path):
    model = tiny.retriever_reader("Haifa")
    stories = "Ada moved to Haifa.", "An amber light, a harbour.", "Irene left."
    for bank, number in product("ab", range(6)):
        (tmp_path / bank).mkdir(exist_ok=True)
        (tmp_path / bank / f"{number}.txt").write_text(f"{stories[number % 3]} Story {bank}{number}.\n" * (1 + number))
    for banks in ("a", "b", "ab"):
        with open_bank(model, tmp_path / f"{banks}.mbc") as made:
            list(ingest(model, made, [tmp_path / bank for bank in banks]))
    questions = ["Who moved to Haifa?", "amber harbour", "When did Irene leave?"]

    def results(memory, **options):
        found = memory.search(questions, top=9, **options)
        shares = [[(source.path, round(source.share, 5)) for source in sources] for sources in found]
        return [answer.text for answer in memory.ask(questions, **options)], shares

    with Memory([tmp_path / "a.mbc", tmp_path / "b.mbc"], model) as several, Memory(tmp_path / "ab.mbc", model) as one:
        for options in ({}, {"selection": Selection(exclude=("*3.txt",))}):
            assert results(several, **options) == results(one, **options)
