"""A Memory sees what others change in its banks, and keeps them open through errors but not through Ctrl-C."""

import io
from pathlib import Path

import pytest

from mbc_engine import Memory, MemoryBank, ingest, open_bank
from mbc_engine.errors import DataError
from mbc_engine.paper.model import MBC

QUESTION = "Who moved?"


@pytest.fixture
def model(tiny):
    return tiny.model("gpt2", "bert", "model.routing=true")


@pytest.fixture
def write(model, tmp_path):
    """Writes a document of its own into a bank, which is made if needed."""

    def write(bank, name):
        file = tmp_path / f"{name}.txt"
        file.write_text(f"{name} moved to Aalen.")
        with open_bank(model, bank) as opened:
            list(ingest(model, opened, [file], workers=0))
        return bank

    return write


def sources(memory):
    (answer,) = memory.ask([QUESTION], max_new_tokens=2)
    return sorted(Path(source.path).stem for source in answer.sources)


def test_changes_of_others_are_seen(model, write, tmp_path):
    team, mine = write(tmp_path / "team.mbc", "Ada"), write(tmp_path / "mine.mbc", "Bruno")
    with Memory([team, mine], model, weights=[1.0, 2.0]) as memory:
        assert sources(memory) == ["Ada", "Bruno"]
        write(mine, "Clara")
        assert sources(memory) == ["Ada", "Bruno", "Clara"]
        mine.unlink()
        write(mine, "Dario")
        assert sources(memory) == ["Ada", "Dario"]
        write(tmp_path / "other.mbc", "Edith").rename(team)
        assert sources(memory) == ["Dario", "Edith"]


@pytest.mark.parametrize(("end", "openings"), [(DataError("Something is wrong."), 1), (KeyboardInterrupt(), 2)])
def test_only_an_interruption_closes_the_banks(model, write, tmp_path, monkeypatch, end, openings):
    opened, open_ = [], MemoryBank.open
    monkeypatch.setattr(MemoryBank, "open", lambda *given, **how: opened.append(given) or open_(*given, **how))

    def fail(*_, **__):
        raise end

    with Memory([write(tmp_path / "b.mbc", "Ada")], model) as memory:
        opened.clear()
        sources(memory)
        with monkeypatch.context() as patch, pytest.raises(type(end)):
            patch.setattr(MBC, "generate", fail, raising=False)
            patch.setattr(MBC, "answer", fail)
            memory.ask([QUESTION])
        assert sources(memory) == ["Ada"]
    assert len(opened) == openings


@pytest.mark.parametrize("kind", [str, Path])
def test_relative_paths(model, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    Path("ada.txt").write_text("Ada moved to Aalen.")
    with Memory(kind("b.mbc"), model) as memory:
        list(memory.add([kind("ada.txt")]))
        list(memory.add(io.BytesIO(b"Bruno moved to Bonn.")))
        with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
            (streamed,) = (origin.source for origin in bank.origins() if origin.source.startswith("stdin:"))
        assert [memory.remove([source]) for source in (kind("ada.txt"), streamed)] == [1, 1]


def test_a_new_bank_that_stays_empty_is_deleted(model, tmp_path):
    photo, note = tmp_path / "photo.png", tmp_path / "note.txt"
    photo.write_bytes(b"\x89PNG")
    note.write_text("Ada moved to Aalen.")
    memory = Memory([tmp_path / "b.mbc"], model)
    list(memory.add([photo], workers=0))
    assert not list(tmp_path.glob("b.mbc*"))
    work = memory.add([note], workers=0)
    next(work)
    work.close()  # as an error does
    assert not list(tmp_path.glob("b.mbc*"))
    list(memory.add([note], workers=0))
    note.unlink()
    list(memory.add([tmp_path], workers=0, prune=True))
    assert memory.info()[1].documents == 0
