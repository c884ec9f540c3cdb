"""Controls: what they change, what they leave as it is, and which reads can tell."""

from functools import partial

import numpy as np
import pytest
import torch

from mbc_engine.evaluation.bank_methods import (
    EmptyBank,
    MemoryMethod,
    WrongBank,
    shuffled_over_codebook,
    shuffled_over_documents,
)
from mbc_engine.evaluation.methods import Footprint

BOOKS = ["{ codes = 8 }", "{ codes = 8, levels = 2, per_position = true }"]


@pytest.fixture
def model(tiny, examples):
    """Untrained, but with a codebook in which documents have codes of their own."""
    made = tiny.model("gpt2", "bert", "model.routing=true", "model.codebook={ codes = 8, per_position = true }")
    made.codebook.fit(made.amortise([one.text for one in examples(50)]))
    return made


def some_codes(levels):
    return np.random.default_rng(7).integers(0, 8, (60, 4, levels)).astype(np.uint16)


def test_shuffling_over_documents():
    codes = some_codes(levels=2)
    shuffled = shuffled_over_documents(codes, 3)
    assert shuffled.dtype == codes.dtype
    orders = []
    for token in range(4):
        before, after = codes[:, token].tolist(), shuffled[:, token].tolist()
        assert sorted(before) == sorted(after)
        orders.append([a == b for a, b in zip(before, after, strict=True)])
    assert len({tuple(order) for order in orders}) == 4  # each position by itself
    assert (shuffled_over_documents(codes, 3) == shuffled).all()
    assert (shuffled_over_documents(codes, 4) != shuffled).any()


@pytest.mark.parametrize("books", BOOKS)
def test_shuffling_over_codebook(tiny, books):
    book = tiny.model("gpt2", "bert", "model.read=hierarchical", f"model.codebook={books}").codebook
    codes = some_codes(book.levels)
    shuffled = shuffled_over_codebook(codes, book, 3)
    assert shuffled.dtype == codes.dtype
    others = {}
    for (chunk, token, level), code in np.ndenumerate(codes):
        index, new = (token if book.per_position else 0, level), int(shuffled[chunk, token, level])
        assert others.setdefault(index, {}).setdefault(int(code), new) == new
    for book in others.values():
        assert sorted(book.values()) == sorted(book) == list(range(8))
    assert any(code != new for book in others.values() for code, new in book.items())
    assert len({tuple(sorted(book.items())) for book in others.values()}) == len(others)


# Whether a read of twenty chunks gives the same with codes shuffled over documents as without.
READS = {"flat": True, "routed:19": False, "routed:20": True, "hierarchical:3": False, "hierarchical:20": True}


@pytest.mark.parametrize("read_mode", READS)
def test_which_reads_notice_shuffled_codes(model, examples, read_mode):
    some = examples(20)  # a chunk each

    def read(method):
        """What the questions take from the bank."""
        method.adapt([one.text for one in some])
        return model.read([one.question for one in some], method.memorised()[0], read_mode=read_mode).modulation

    real, codes = read(MemoryMethod(model)), partial(shuffled_over_codebook, codebook=model.codebook)
    for corrupt, alike in ((shuffled_over_documents, READS[read_mode]), (codes, False)):
        # What is read in another order adds up to the same but for rounding.
        assert torch.allclose(read(MemoryMethod(model, corrupt=corrupt)), real, rtol=0, atol=1e-5) == alike


@pytest.mark.parametrize("settings", [(), ("model.quantised=false", "model.lora.layers=0")])
def test_an_empty_bank_holds_and_names_nothing(tiny, examples, settings):
    model = tiny.model("gpt2", "bert", *settings)
    method, some = EmptyBank(model), examples(3)
    questions = [one.question for one in some]
    with torch.no_grad():
        alone = model.base.generate(model.prefix(model.questions(questions)), questions)
    before = method.answer(questions)
    assert [reply.text for reply in before] == alone
    method.adapt([one.text for one in some])
    assert method.answer(questions) == before
    assert {reply.sources for reply in before} == {None}
    assert method.footprint() == Footprint(0)


def test_wrong_bank_holds_as_many_others(model, examples):
    texts = [one.text for one in examples(12)]
    inner, other = MemoryMethod(model), MemoryMethod(model)
    method = WrongBank(inner, texts[4:], seed=2)
    method.adapt(["Ada moved."] * 2)
    method.adapt(["Hugo moved."] * 2)
    WrongBank(other, texts[4:], seed=2).adapt(["Ada moved."] * 4)
    assert all(map(np.array_equal, other._documents, inner._documents)) and len(inner._documents) == 4
    assert method.footprint() == inner.footprint()
    assert {reply.sources for reply in method.answer(["Where did Ada move?", "Who moved?"])} == {()}
    before = inner._documents
    method.reset()
    method.adapt(["Ada moved."] * 4)
    assert all(map(np.array_equal, before, inner._documents)) and len(inner._documents) == 4
    WrongBank(inner, ()).adapt(["Ada moved."])
    assert not inner._documents
