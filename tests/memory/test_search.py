"""Passages found for queries, with tiny models: the chunks that the read chooses, and their texts."""

import json
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Memory, ingest, open_bank
from mbc_engine.bank import Selection
from mbc_engine.errors import BankError
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import BankMemory
from tests.text_models import StandIn

QUERIES = ["Who won?", "Where did it rain?"]


@pytest.fixture(scope="module")
def model(tiny: Any) -> MBC:
    return tiny.model("gpt2", "bert", "model.routing=true")


@pytest.mark.parametrize("read_mode", ["flat", "hierarchical:2", "routed:1"])
def test_passages_are_the_chunks_that_the_read_finds(model: MBC, folder: Path, tmp_path: Path, read_mode: str) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        found = Memory(bank, model).search(QUERIES, top=3, read_mode=read_mode)
        reading = model.read(QUERIES, BankMemory(bank, model.require_codebook()), read_mode=read_mode, top=3)
        expected = [
            [(bank.chunks_at([own.chunk])[0].document.origins[0].source, own.share) for own in ranked]
            for ranked in reading.chunks
        ]
    assert [[(source.path, source.share) for source in own] for own in found] == expected
    assert {len(own) for own in found} == {3}
    for source in (source for own in found for source in own):
        assert (source.passage, source.line) == (Path(source.path).read_text(), 1)
    assert {source.sentence for source in found[1]} == {"It rained in the north."}


def test_one_document_may_give_several_passages(model: MBC, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(
        " ".join(f"Story number {number} was told in the north." for number in range(30))
    )
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [tmp_path / "long.txt"]))
        chunks = bank.totals().chunks
        (found,) = Memory(bank, model).search(QUERIES[:1], top=100)
    assert len(found) == chunks > 2
    assert len({source.passage for source in found}) == chunks
    assert {source.path for source in found} == {str(tmp_path / "long.txt")}
    assert [source.share for source in found] == sorted((source.share for source in found), reverse=True)


def test_a_file_that_is_gone_leaves_no_passage(model: MBC, remember: Any, folder: Path) -> None:
    memory = remember(model, folder)
    (folder / "1.txt").unlink()
    (found,) = memory.search(QUERIES[:1], top=4)
    assert {Path(source.path).stem: source.passage is None for source in found} == {
        "0": False,
        "1": True,
        "2": False,
        "3": False,
    }


def test_a_selection_leaves_documents_out(model: MBC, remember: Any, folder: Path) -> None:
    (found,) = remember(model, folder).search(QUERIES[:1], top=4, selection=Selection(exclude=("2.txt",)))
    assert {Path(source.path).stem for source in found} == {"0", "1", "3"}


def test_an_empty_bank_is_refused(model: MBC, tmp_path: Path) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Memory(bank, model).search(QUERIES)


def test_a_line_is_that_of_the_sentence_in_the_file(model: MBC, remember: Any, tmp_path: Path) -> None:
    files = {
        "a.txt": "Ada moved.\n\nIt rained in\nthe north.",
        "windows.txt": "Ada moved.\r\n\r\nIt rained in\r\nthe north.",
        "b.md": "---\ndate: 2024-05-01\n---\n# A storm\n\nIt rained in the north.",
        "rows.jsonl": '{"text": "Ada moved."}\n' + json.dumps({"text": "It rained in the north."}),
        "c.html": "<html>\n<p>It rained\n<b>in the north</b>.",
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
    memory = remember(model, *(tmp_path / name for name in files))
    found = memory.search(["Where did it rain?"], top=9)[0]
    lines = {Path(own.path).name: own.line for own in found if own.sentence == "It rained in the north."}
    (tmp_path / "a.txt").write_text("It rained in the north.")
    changed = memory.search(["Where did it rain?"], top=9)[0]
    assert lines == {"a.txt": 3, "windows.txt": 3, "b.md": 6, "rows.jsonl": 2, "c.html": None}
    assert {own.line for own in changed if own.state == "changed"} == {None}


def test_a_passage_that_a_file_has_twice_has_no_line(model: MBC, remember: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text\nIt rained in the north all day.\nIt rained in the north\n")
    memory = remember(model, tmp_path / "rows.csv")
    (found,) = memory.search(["Where did it rain?"], top=2)
    assert memory.search([]) == memory.ask([]) == []
    assert {own.part: own.line for own in found} == {"row 1": 2, "row 2": None}


def test_a_file_is_searched_for_a_line_once_however_many_questions_find_it(
    model: MBC, remember: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("Ada moved.")
    read, read_bytes = list[str](), Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    memory = remember(model, tmp_path / "a.txt")
    monkeypatch.setattr(Path, "read_bytes", noted)
    found = memory.search(["Who moved?", "Did Ada move?"])
    assert [own.line for (own,) in found] == [1, 1]
    assert read == ["a.txt"]


def test_a_search_loads_no_reader_and_decodes_only_what_is_shown(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.retriever_reader()
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"Story {number}. Hugo won in {number} of ten races.")
    texts = StandIn("".join(path.read_text() for path in tmp_path.glob("*.txt")))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, sorted(tmp_path.glob("*.txt"))))
        list(bank.recode_texts(texts.open, to_lm=True))
        monkeypatch.setattr("mbc_engine.sources.text_model", texts.open)
        memory, texts.decoded = Memory(bank, model), []
        (before,) = memory.search(["Who won?"], top=3)
        assert texts.decoded == []  # the files have them
        (tmp_path / Path(before[0].path).name).unlink()
        (files,) = memory.search(["Who won?"], top=3, with_text=False)
        assert texts.decoded == []
        (after,) = memory.search(["Who won?"], top=3)
        assert texts.decoded == [1]
    assert "reader" not in vars(model)
    assert [(own.path, own.share) for own in files] == [(own.path, own.share) for own in before]
    assert [own.passage is None for own in files] == [True, False, False]
    assert [(own.passage, own.sentence) for own in after] == [(own.passage, own.sentence) for own in before]
    assert [(own.text_from, own.line) for own in after] == [("bank", None), ("file", 1), ("file", 1)]
