"""Passages found for queries, with a tiny model of the paper's method: the chunks that its read chooses."""

import json
from pathlib import Path

import pytest

from mbc_engine import Memory, ingest, open_bank, sources
from mbc_engine.paper.memories import BankMemory

QUERIES = ["Who won?", "Where did it rain?"]


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.model("gpt2", "bert", "model.routing=true")


@pytest.mark.parametrize("read_mode", ["flat", "hierarchical:2", "routed:1"])
def test_passages_are_the_chunks_that_the_read_finds(model, folder, tmp_path, read_mode):
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        results = Memory(bank, model).search(QUERIES, top=3, read_mode=read_mode)
        reading = model.read(QUERIES, BankMemory(bank, model.require_codebook()), read_mode=read_mode, top=3)
        expected = [
            [(bank.chunks_at([hit.chunk])[0].document.origins[0].source, hit.share) for hit in hits]
            for hits in reading.chunks
        ]
    assert [[(source.path, source.share) for source in sources] for sources in results] == expected
    assert list(map(len, results)) == [3, 3]
    for source in (*results[0], *results[1]):
        assert (source.passage, source.line) == (Path(source.path).read_text(), 1)
    assert {source.sentence for source in results[1]} == {"It rained in the north."}


def test_several_passages_of_one_document(model, remember, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(" ".join(f"Story number {number} was told in the north." for number in range(30)))
    memory = remember(model, path)
    (sources,) = memory.search(QUERIES[:1], top=100)
    assert len({source.passage for source in sources}) == len(sources) == memory.info()[1].chunks > 2
    assert {source.path for source in sources} == {str(path)}
    assert [source.share for source in sources] == sorted((source.share for source in sources), reverse=True)


def test_few_of_many_copies_are_looked_at(model, remember, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_MOST_LOOKED_AT", 2)
    copies = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in copies:
        path.write_text("Ada won.")
    memory = remember(model, *copies)
    for path in copies[:2]:
        path.unlink()
    ((source,),) = memory.search(QUERIES[:1], top=1)
    assert (Path(source.path).name, source.state, len(source.others)) == ("0.txt", "gone", 2)


def test_line_of_a_sentence(model, remember, tmp_path):
    files = {
        "a.txt": "Ada moved.\n\nIt rained in\nthe north.",
        "windows.txt": "Ada left.\r\n\r\nIt rained in\r\nthe north.",
        "b.md": "---\ndate: 2024-05-01\n---\n# A storm\n\nIt rained in the north.",
        "d.md": "[Ada](#a).\n\nIt **rained** in [the](#b) north.",
        "rows.jsonl": '{"text": "Ada moved."}\n' + json.dumps({"text": "It rained in the north."}),
        "c.html": "<html>\n<p>Ada went.\n<p>It rained\n<b>in the north</b>.",
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
    memory = remember(model, *(tmp_path / name for name in files))
    (sources,) = memory.search(["Where did it rain?"], top=9)
    lines = {Path(each.path).name: each.line for each in sources if each.sentence == "It rained in the north."}
    assert lines == {"a.txt": 3, "windows.txt": 3, "b.md": 6, "d.md": 3, "rows.jsonl": 2, "c.html": None}
    (tmp_path / "a.txt").write_text("It rained in the north.")
    (sources,) = memory.search(["Where did it rain?"], top=9)
    assert {source.line for source in sources if source.state == "changed"} == {None}


def test_no_line_for_a_passage_that_a_file_has_twice(model, remember, tmp_path):
    (tmp_path / "rows.csv").write_text("text\nIt rained in the north all day.\nIt rained in the north\n")
    (sources,) = remember(model, tmp_path / "rows.csv").search(["Where did it rain?"], top=2)
    assert {source.part: source.line for source in sources} == {"row 1": 2, "row 2": None}
