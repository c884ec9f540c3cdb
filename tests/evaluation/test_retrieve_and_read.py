"""A retriever-reader on a stream: what it keeps and names, with a tiny encoder whose reader is not trained."""

from typing import Any

import pytest
import torch

from mbc_engine.config import RetrieverReaderSettings
from mbc_engine.evaluation.banks import RetrieveAndRead
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.mini.model import RetrieverReader, build
from mbc_engine.mini.span_reader import SpanReader

DOCUMENTS = ["Ada moved to Aalen in the spring.", "   ", "Hugo moved to Haifa.", "The river rose, the bridge held."]


@pytest.fixture
def model(tiny: Any) -> RetrieverReader:
    torch.manual_seed(0)
    name = str(tiny.encoders["bert"])

    def reader() -> SpanReader:
        encoder = load_encoder(name)
        return SpanReader(encoder.model, encoder.tokenizer, window=32, longest=3).eval()

    settings = RetrieverReaderSettings.model_validate(
        {
            "encoder": name,
            "window": 32,
            "address": {"tokens": 4, "codes": 16, "dim": 2},
            "readers": [{"name": "own", "encoder": name, "confidence": {"weights": [0.0, 0.0]}}],
        }
    )
    return build(settings, settings.readers[0], reader)


@pytest.fixture
def method(model: RetrieverReader) -> RetrieveAndRead:
    return RetrieveAndRead(model)


def test_answer_names_its_document_first(method: RetrieveAndRead) -> None:
    method.adapt(DOCUMENTS)
    for reply in method.answer(["Where did Hugo move?", "What held?"]):
        assert reply.sources is not None
        assert sorted(reply.sources) == [0, 2, 3]
        assert reply.text
        assert reply.text in DOCUMENTS[reply.sources[0]]


def test_it_does_not_matter_how_a_stream_is_cut(method: RetrieveAndRead) -> None:
    questions = ["Where did Ada move?", "What rose?"]
    method.adapt(DOCUMENTS)
    whole, footprint = method.answer(questions), method.footprint()
    method.reset()
    for document in DOCUMENTS:
        method.answer(questions)
        method.adapt([document])
    assert method.answer(questions) == whole
    assert method.footprint() == footprint


def test_repeated_text_is_the_first_document(method: RetrieveAndRead) -> None:
    method.adapt([DOCUMENTS[1], DOCUMENTS[0], DOCUMENTS[0]])
    assert [reply.sources for reply in method.answer(["Where did Ada move?"])] == [(1,)]


def test_without_documents_there_is_no_answer(method: RetrieveAndRead) -> None:
    method.adapt(["", " "])
    (reply,) = method.answer(["Where did Ada move?"])
    assert (reply.text, reply.sources) == ("", ())


def test_all_text_counts_for_what_is_kept(method: RetrieveAndRead) -> None:
    empty = method.footprint()
    assert empty.paper_row is None
    method.adapt([f"Ada moved to number {number} in the spring of {number * number}." for number in range(300)])
    assert method.footprint().on_disk > empty.on_disk + 300
