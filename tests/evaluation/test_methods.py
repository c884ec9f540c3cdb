"""What holds for every method: how the stream is cut, questions are ordered and what was asked before do not matter."""

import numpy as np
import pytest

from mbc_engine.evaluation.bank_methods import EmptyBank, MemoryMethod, RetrieveAndRead, TextPrefix, WrongBank
from mbc_engine.evaluation.fine_tuning import FineTuned
from mbc_engine.evaluation.language_models import BM25Reading, ClosedBook, answers
from mbc_engine.evaluation.token_weights import uniform

METHODS = {
    "closed book": lambda tiny, base, reader: ClosedBook(base),
    "bm25": lambda tiny, base, reader: BM25Reading(base),
    "fine-tuned": lambda tiny, base, reader: FineTuned(base, uniform, rate=1e-2, optimiser="adam", window=64),
    "codes": lambda tiny, base, reader: MemoryMethod(
        tiny.model("gpt2", "bert", "model.routing=true", "model.codebook={ codes = 8, per_position = true }"),
        read_mode="routed:2",
    ),
    "vectors": lambda tiny, base, reader: MemoryMethod(
        tiny.model("gpt2", "bert", "model.routing=true", "model.quantised=false", "model.lora.layers=0"),
        keeps_codes=False,
        read_mode="routed:2",
    ),
    "empty bank": lambda tiny, base, reader: EmptyBank(tiny.model("gpt2", "bert")),
    "text as a prefix": lambda tiny, base, reader: TextPrefix(reader, base),
    "shuffled texts": lambda tiny, base, reader: TextPrefix(reader, base, shuffles=True),
    "wrong bank": lambda tiny, base, reader: WrongBank(TextPrefix(reader, base), ["Ada moved.", "Bru did not."]),
    "retriever-reader": lambda tiny, base, reader: RetrieveAndRead(reader),
}


@pytest.fixture(params=METHODS)
def method(request, tiny, base, reader, monkeypatch):
    monkeypatch.setattr("mbc_engine.evaluation.language_models.MAX_NEW_TOKENS", 3)  # as telling as 16, and faster
    return METHODS[request.param](tiny, base, reader)


@pytest.fixture
def documents(examples):
    return [*(one.text for one in examples(4)), " \n", "Irène!"]


@pytest.fixture
def questions(examples):
    return [*(one.question for one in examples(4)), "Who moved to which town in the winter, and who else?", "Quito?"]


def replies(method, documents, questions, cuts):
    method.reset()
    for start, end in zip([0, *cuts], [*cuts, len(documents)], strict=True):
        method.answer(questions[:1])
        method.adapt(documents[start:end])
    return method.answer(questions)


def test_only_the_documents_matter(method, documents, questions):
    """Not how they come, nor the order of the questions, nor what was memorised and asked before a reset."""
    empty, nothing = replies(method, [], questions, []), method.footprint()
    whole, footprint = replies(method, documents, questions, []), method.footprint()
    order = np.random.default_rng(0).permutation(len(questions))
    assert method.answer([questions[index] for index in order]) == [whole[index] for index in order]
    assert replies(method, documents, questions, [1, 3, 3]) == whole
    assert method.footprint() == footprint
    assert replies(method, [], questions, []) == empty
    assert method.footprint() == nothing


def test_text_is_read_as_it_was(base, reader, documents):
    """The text found, decoded from the bank, is the prefix; a control reads another one, or none."""
    asked = ["Where did Ada move?"]
    method, shuffled = TextPrefix(reader, base), TextPrefix(reader, base, shuffles=True, seed=1)
    assert [one.text for one in method.answer(asked)] == answers(base, asked)
    method.adapt(documents[:4])
    shuffled.adapt(documents[:4])
    (found,), (other,) = method.answer(asked), shuffled.answer(asked)
    assert found.sources and found.sources == other.sources
    assert found.text == answers(base, asked, [documents[found.sources[0]]])[0]
    order = np.random.default_rng(1).permutation(4)
    assert other.text == answers(base, asked, [documents[order[found.sources[0]]]])[0]
