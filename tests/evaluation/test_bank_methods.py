"""Methods with a bank: their sources are documents of the stream, and their sizes are real ones; controls: what they
change, what they leave as it is, and which reads can tell."""

from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mbc_engine import ingest, open_bank
from mbc_engine.evaluation.bank_methods import (
    EmptyBank,
    MemoryMethod,
    RetrieveAndRead,
    WrongBank,
    shuffled_over_codebook,
    shuffled_over_documents,
)
from mbc_engine.evaluation.methods import Footprint, MethodAnswer

VECTORS = ("model.quantised=false", "model.lora.layers=0")
CODES = ("model.codebook={ codes = 8, per_position = true }",)


@pytest.mark.parametrize("keeps_codes", [True, False])
def test_sources_are_five_places_in_the_stream(tiny, examples, keeps_codes):
    model = tiny.model("gpt2", "bert", "model.routing=true", *(CODES if keeps_codes else VECTORS))
    method = MemoryMethod(model, keeps_codes=keeps_codes, read_mode="routed:2")
    long = " ".join(one.text for one in examples(12))  # several chunks
    assert len(model.documents.chunker(long)) > 1
    method.adapt([long, " \n", *(one.text for one in examples(5))])
    for reply in method.answer([one.question for one in examples(12)]):
        assert reply.sources is not None
        assert len(reply.sources) == len(set(reply.sources)) == 5
        assert set(reply.sources) <= {0, 2, 3, 4, 5, 6}


def test_footprint_of_codes_is_the_bank_file(tiny, examples, tmp_path):
    model = tiny.model()
    texts = [one.text for one in examples(20)] + [" ".join(one.text for one in examples(30))]
    files = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    with open_bank(model, tmp_path / "bank.mbc", keeps_origins=False) as bank:
        assert [*ingest(model, bank, files)]
        bank.checkpoint()
        sizes = bank.sizes()
    method = MemoryMethod(model)
    method.adapt([*texts, "", texts[0]])  # what is empty, or there already, takes nothing
    assert method.footprint().on_disk == sizes.file
    empty = MemoryMethod(model).footprint().on_disk
    assert sizes.codebook < empty <= sizes.file


def test_vectors_take_what_a_file_of_them_takes(tiny, examples, tmp_path):
    model = tiny.model("gpt2", "bert", *VECTORS)
    method, texts = MemoryMethod(model, keeps_codes=False), [one.text for one in examples(7)]
    assert method.footprint() == Footprint(0, paper_row=4 * 32 * 4)
    method.adapt(texts[:3])
    method.adapt(texts[3:])
    with torch.no_grad():
        save_file({"vectors": model.amortise(texts)}, tmp_path / "vectors.safetensors")
    assert 0 < (tmp_path / "vectors.safetensors").stat().st_size - method.footprint().on_disk < 120


DOCUMENTS = ["Ada moved to Aalen in the spring.", "   ", "Hugo moved to Haifa.", "The river rose, the bridge held."]


def test_answer_names_its_document_first(reader):
    method = RetrieveAndRead(reader)
    method.adapt(DOCUMENTS)
    for reply in method.answer(["Where did Hugo move?", "What held?"]):
        assert reply.sources is not None
        assert sorted(reply.sources) == [0, 2, 3]
        assert reply.text
        assert reply.text in DOCUMENTS[reply.sources[0]]
    method.reset()
    method.adapt(["", " "])
    assert method.answer(["Where did Ada move?"]) == [MethodAnswer("", ())]


@pytest.fixture
def model(tiny, examples):
    """Untrained, but with a codebook in which documents have codes of their own."""
    made = tiny.model("gpt2", "bert", "model.routing=true", *CODES)
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


@pytest.mark.parametrize("books", ["{ codes = 8 }", "{ codes = 8, levels = 2, per_position = true }"])
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


@pytest.mark.parametrize("settings", [(), VECTORS])
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
