"""Finding passages: one scan of the codes, words of the best chunks, and documents out of chunks, by hand."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine import Selection, ingest, open_bank
from mbc_engine.mini.retrieval import Scope, by_document, rerank
from mbc_engine.ranking import Hit


def hit(chunk: int, share: float, document: int) -> Hit:
    return Hit(chunk, share, 0, document)


def test_a_word_counts_once_by_how_rare_it_is(tiny: Any) -> None:
    model = tiny.retriever_reader()
    model.frequencies.zero_()
    for word, frequency in (("hurt", 0.4), ("haifa", 1.0)):
        model.frequencies[model.tokenizer.convert_tokens_to_ids(word)] = frequency
    found = model.word_bonus("the hurt", ["the hurt the hurt", "the Haifa", "Hurt", ""])
    scale = model.settings.word_weight * float(model.address.log_scale.detach().exp())
    assert scale > 0
    assert found.tolist() == pytest.approx([0.4 * scale, 0.0, 0.4 * scale, 0.0])


def test_a_bonus_changes_the_order_and_all_shares() -> None:
    found = [Hit(7, 0.5, 0), Hit(3, 0.2, 0)]  # chunks that are not among the best have 0.3 together
    first, second = rerank(found, np.array([0.0, math.log(4)], np.float32))
    assert (first.chunk, second.chunk) == (3, 7)
    # 0.2 four times is 0.8; with 0.5 and 0.3 that makes 1.6.
    assert (first.share, second.share) == pytest.approx((0.5, 0.3125))


@given(
    scores=st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12),
    bonus=st.lists(st.floats(0, 8, width=32), min_size=12, max_size=12),
    top=st.integers(1, 12),
)
def test_shares_after_a_bonus_are_those_of_a_softmax_over_everything(
    scores: list[float], bonus: list[float], top: int
) -> None:
    values = np.array(scores, np.float64)
    shares = np.exp(values - values.max()) / np.exp(values - values.max()).sum()
    best = np.argsort(-values, kind="stable")[:top]
    added = np.zeros(len(scores))
    added[best] = bonus[: len(best)]
    raised = np.exp(values + added - (values + added).max())
    expected = raised / raised.sum()
    ranked = rerank([Hit(int(at), float(shares[at]), 0) for at in best], added[best].astype(np.float32))
    assert {own.chunk for own in ranked} == set(best.tolist())
    assert [own.share for own in ranked] == sorted((own.share for own in ranked), reverse=True)
    for own in ranked:
        assert own.share == pytest.approx(expected[own.chunk], rel=1e-4, abs=1e-9)


def test_a_document_has_the_shares_of_its_chunks_and_its_best_one() -> None:
    hits = [hit(4, 0.4, 0), hit(2, 0.3, 1), hit(9, 0.2, 1), hit(5, 0.05, 2), hit(6, 0.05, 3)]
    found = by_document(hits, 3)
    assert [own.chunk for own in found] == [2, 4, 5]
    assert [own.share for own in found] == pytest.approx([0.5, 0.4, 0.05])
    assert [own.ties for own in found] == [0, 0, 1]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    folder = tmp_path / "news"
    folder.mkdir()
    for number, name in enumerate(("Ada", "Hugo", "Irene", "Jonabo")):
        (folder / f"{number}.txt").write_text(f"{name} moved to Haifa in the spring.")
    return folder


def test_the_scan_finds_what_a_slow_sum_over_codes_does(tiny: Any, story: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [story]))
        codes = np.concatenate([codes for codes, _ in bank.blocks()]).astype(np.int64)[..., 0]
        tables = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
        found = model.scope(bank).best(tables, 3)
        part = model.scope(bank, Selection(exclude=("2.txt",))).best(tables, 3)
        names = [chunk.document.origins[0].source for chunk in bank.chunks_at(range(4))]
    for question, (own, chosen) in enumerate(zip(found, part, strict=True)):
        scores = tables[question].numpy()[np.arange(3), codes].sum(1).astype(np.float64)
        shares = np.exp(scores) / np.exp(scores).sum()
        order = np.argsort(-scores, kind="stable")[:3]
        assert [ranked.chunk for ranked in own] == [ranked.document for ranked in own] == order.tolist()
        assert [ranked.share for ranked in own] == pytest.approx(shares[order].tolist(), rel=1e-5)
        left = [place for place in np.argsort(-scores, kind="stable") if not names[place].endswith("2.txt")]
        assert [ranked.chunk for ranked in chosen] == left
    assert len(found) == 2


def test_a_sample_takes_what_counts_of_a_small_bank(tiny: Any, story: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [story]))
        every = np.concatenate([codes for codes, _ in bank.blocks()])
        assert np.array_equal(model.scope(bank).sample(10), every)
        assert np.array_equal(model.scope(bank, Selection(only=("1.txt", "3.txt"))).sample(10), every[[1, 3]])


def test_a_sample_of_a_large_bank_is_runs_of_neighbours() -> None:
    class Large:
        is_weighted = False

        def totals(self) -> SimpleNamespace:
            return SimpleNamespace(chunks=1000)

        def codes_at(self, chunks: np.ndarray) -> np.ndarray:
            return chunks

    sample = Scope(None, Large()).sample(80)  # type: ignore[arg-type]
    assert len(sample) == 80
    assert sample[0] == 0
    assert sample[-1] == 999
    assert (np.diff(sample.reshape(8, 10)) == 1).all()


def test_the_document_that_was_read_goes_first_by_the_chunk_it_was_read_in() -> None:
    hits = [hit(4, 0.4, 0), hit(2, 0.3, 1), hit(9, 0.2, 1), hit(5, 0.1, 2)]
    found = by_document(hits, 2, first=hits[2])
    assert [own.chunk for own in found] == [9, 4]
    assert [own.share for own in found] == pytest.approx([0.5, 0.4])
    assert [own.chunk for own in by_document(hits, 9, first=hits[3])] == [5, 2, 4]
