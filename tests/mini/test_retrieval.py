"""Finding passages: one scan of the codes, and documents out of chunks, by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mbc_engine import Selection, ingest, open_bank
from mbc_engine.bank import ReadableBank
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.ranking import Hit


def hit(chunk: int, share: float, document: int) -> Hit:
    return Hit(chunk, share, 0, document)


def test_chunks_by_document() -> None:
    hits = [hit(4, 0.4, 0), hit(2, 0.3, 1), hit(9, 0.2, 1), hit(5, 0.05, 2), hit(6, 0.05, 3)]
    documents = by_document(hits, 3)
    assert [document.chunk for document in documents] == [2, 4, 5]
    assert [document.share for document in documents] == pytest.approx([0.5, 0.4, 0.05])
    assert [document.ties for document in documents] == [0, 0, 1]
    first = by_document(hits, 2, first=hits[2])
    assert [(document.chunk, document.share) for document in first] == [(9, pytest.approx(0.5)), (4, 0.4)]
    assert [document.chunk for document in by_document(hits, 3, first=hits[3])] == [5, 2, 4]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    folder = tmp_path / "news"
    folder.mkdir()
    for number, name in enumerate(("Ada", "Hugo", "Irene", "Jonabo")):
        (folder / f"{number}.txt").write_text(f"{name} moved to Haifa in the spring.")
    return folder


def test_scan_scores_like_a_slow_sum(tiny: Any, story: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [story]))
        codes = np.concatenate([codes for codes, _ in bank.blocks()]).astype(np.int64)[..., 0]
        tables = np.random.default_rng(1).standard_normal((2, 3, 8), np.float32)
        found = model.scope(bank).best(tables, 3)
        part = model.scope(bank, Selection(exclude=("2.txt",))).best(tables, 3)
        names = [chunk.document.origins[0].source for chunk in bank.chunks_at(range(4))]
    for question, (own, chosen) in enumerate(zip(found, part, strict=True)):
        scores = tables[question][np.arange(3), codes].sum(1).astype(np.float64)
        shares = np.exp(scores) / np.exp(scores).sum()
        order = np.argsort(-scores, kind="stable")[:3]
        assert [ranked.chunk for ranked in own] == [ranked.document for ranked in own] == order.tolist()
        assert [ranked.share for ranked in own] == pytest.approx(shares[order].tolist(), rel=1e-5)
        left = [place for place in np.argsort(-scores, kind="stable") if not names[place].endswith("2.txt")]
        assert [ranked.chunk for ranked in chosen] == left
    assert len(found) == 2


def test_sample_of_a_small_bank(tiny: Any, story: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [story]))
        every = np.concatenate([codes for codes, _ in bank.blocks()])
        assert np.array_equal(model.scope(bank).sample(10), every)
        assert np.array_equal(model.scope(bank, Selection(only=("1.txt", "3.txt"))).sample(10), every[[1, 3]])


def test_whitening_is_computed_once_for_what_is_searched(tiny: Any, story: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [story / "1.txt", story / "2.txt"]))
        whitening = model.scope(bank).whitening
        assert model.scope(bank).whitening is whitening
        part = model.scope(bank, Selection(only=("1.txt",))).whitening
        assert not np.array_equal(part, whitening)
        list(ingest(model, bank, [story]))
        more = model.scope(bank).whitening
        assert not np.array_equal(more, whitening)
        codes = np.concatenate([codes for codes, _ in bank.blocks()])[..., 0]
        assert np.array_equal(more, model.address.whitening(codes))


def test_sample_of_a_large_bank_is_runs_of_neighbours() -> None:
    class Large:
        is_weighted = False
        each = ReadableBank.each

        def totals(self) -> SimpleNamespace:
            return SimpleNamespace(chunks=1000)

        def codes_at(self, chunks: np.ndarray) -> np.ndarray:
            return chunks

    sample = Scope(None, Large()).sample(80)  # type: ignore[arg-type]
    assert len(sample) == 80
    assert sample[0] == 0
    assert sample[-1] == 999
    assert (np.diff(sample.reshape(8, 10)) == 1).all()
