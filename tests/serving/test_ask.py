"""Answers out of a bank, with tiny models: their sources, and what became of these."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Recall, ingest, open_bank
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.serving.ingest import ingest_stream


def test_an_answer_names_sources_and_what_became_of_them(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "1.txt").unlink()
        (folder / "2.txt").write_text("Changed since.")
        reply = Recall(model, bank).ask(["Who won?"], sources=4)[0]
    states = {Path(source.path).stem: source.state for source in reply.sources}
    assert states == {"0": "unchanged", "1": "gone", "2": "changed", "3": "unchanged"}
    assert all((source.sentence is None) == (source.state != "unchanged") for source in reply.sources)
    assert sum(source.share for source in reply.sources) == pytest.approx(1, abs=1e-4)


def test_a_row_is_named_as_part_of_its_file(tiny: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "text": f"{name} moved."}) for name in ("ada", "bruno")))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path]))
        reply = Recall(model, bank).ask(["Who moved?"])[0]
    assert {(source.path, source.part, source.sentence) for source in reply.sources} == {
        (str(path), "ada", "ada moved."),
        (str(path), "bruno", "bruno moved."),
    }


def test_of_several_origins_one_that_is_still_there_is_named(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Ada moved to Bergen.")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [tmp_path / "a.txt", tmp_path / "b.txt"]))
        (tmp_path / "a.txt").unlink()
        (source,) = Recall(model, bank).ask(["Who moved?"])[0].sources
    assert (source.path, source.state) == (str(tmp_path / "b.txt"), "unchanged")


def test_a_bank_without_origins_names_contents(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc", keeps_origins=False) as bank:
        list(ingest(model, bank, [folder]))
        known = {document.digest for document in bank.documents()}
        reply = Recall(model, bank).ask(["Who won?"], sources=4)[0]
    assert {source.path for source in reply.sources} == known
    assert {(source.state, source.sentence, source.date) for source in reply.sources} == {("unknown", None, None)}


def test_sides_with_encoders_of_different_width_find_sentences(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model("gpt2", "t5", f"model.questions.name={tiny.encoders['bert']}")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        reply = Recall(model, bank).ask(["Who won?"])[0]
    assert reply.sources[0].sentence in Path(reply.sources[0].path).read_text()


def test_an_empty_bank_says_so(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Recall(model, bank).ask(["Who?"])


def test_another_models_bank_is_not_asked(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, other = tiny.model(), tiny.model()
    other.codebook.books.data.add_(1)
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(ModelMismatch, match="was written by model"):
        Recall(other, bank)


def test_what_came_from_standard_input_is_not_called_gone(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen.")))
        (source,) = Recall(model, bank).ask(["Who moved?"])[0].sources
    assert (source.state, source.sentence) == ("unknown", None)


def test_a_row_that_is_lost_is_gone(tiny: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl"
    path.write_text('{"id": "ada", "text": "Ada moved."}')
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path]))
        path.write_text('{"id": "bruno", "text": "Bruno moved."}')
        (source,) = Recall(model, bank).ask(["Who moved?"])[0].sources
    assert source.state == "gone"
