"""Chunks know their documents: found by name, title and headings, and read with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine import Memory, ingest, open_bank, reencode
from mbc_engine.ingestion.workers import chunked
from mbc_engine.mini.model import CONTEXT_WEIGHT
from mbc_engine.text import Document
from mbc_engine.text.document import Section


@pytest.fixture
def model(tiny: Any) -> Any:
    model = tiny.retriever_reader("7430", window=32)
    model.settings = model.settings.model_copy(update={"context_window": 8})
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lynx", "heron"):
        tmp_path.joinpath("in", name).mkdir(parents=True)
        port = 7430 if name == "heron" else 7410
        tmp_path.joinpath("in", name, "readme.txt").write_text(f"This service listens on port {port}.")
    return tmp_path / "in"


def test_each_chunk_has_a_context_and_the_bank_the_text(model: Any) -> None:
    text = "It is 410,000 euros in all, which is a lot.\n\nKai leads it."
    document = Document("/w/orion.md", "", text, "ab" * 32, 1, sections=(Section(0, "Budget"), Section(45, "People")))
    with open_bank(model, None) as bank:
        item = chunked(document, bank, model.chunker.leaving(8))
        assert item.contexts == ("orion > Budget", "orion > People")
        assert "".join(chunk.text for chunk in item.chunks) == text.replace("\n\n", "")
    with open_bank(model, None, keeps_origins=False) as bank:
        assert chunked(document, bank, model.chunker.leaving(8)).contexts == ("Budget", "People")


def test_the_vector_of_a_context_adds_to_that_of_its_text(model: Any) -> None:
    texts = ["It listens on port 7430.", "Kai leads it.", "Kai leads it.", "Kai leads Orion."]
    contexts = ["heron", "", "orion > People", "Orion"]  # the last text says it itself
    vectors = model.sentence_vectors(texts)
    for row, context in enumerate(contexts[:3]):
        if context:
            vectors[row] += CONTEXT_WEIGHT * (model.sentence_vectors([context])[0] - model.address.document_mean)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = model.address.encode(model.address.of_documents(vectors))
    assert (model.memorise(texts, contexts)[..., 0] == expected).all()
    assert (model.memorise(texts, [""] * len(texts)) == model.memorise(texts)).all()


def test_chunks_are_read_with_their_contexts(model: Any, folder: Path, tmp_path: Path) -> None:
    with Memory(tmp_path / "b.mbc", model) as memory:
        list(memory.add([folder]))
        (answer,) = memory.ask(["Which port does heron use?"])
        assert answer.text == "7430"
        assert {context for each in model.reader.contexts for context in each} == {
            "",
            "heron > readme",
        }  # lynx is not asked for
        assert answer.sources[0].sentence == "This service listens on port 7430."


def test_a_bank_without_contexts_gets_them_when_it_is_encoded_again(model: Any, folder: Path, tmp_path: Path) -> None:
    path, settings = tmp_path / "b.mbc", model.settings
    model.settings = settings.model_copy(update={"context_window": 0})
    with open_bank(model, path) as bank:
        list(ingest(model, bank, [folder]))
    model.settings = settings
    with open_bank(model, path) as bank:
        assert not bank.header.context_tokens
    (folder / "lynx" / "readme.txt").unlink()  # known from the bank alone
    list(reencode(model, path))
    with open_bank(model, path) as bank, open_bank(model, tmp_path / "new.mbc") as new:
        assert bank.header.context_tokens == 8
        list(ingest(model, new, [folder]))
        known = {document.origin.source: document.codes for document in new.documents(whole=True)}
        again = {document.origin.source: document.codes for document in bank.documents(whole=True)}
        assert len(again) == 2
        assert all((again[source] == codes).all() for source, codes in known.items())


def test_the_time_that_a_question_names_counts(model: Any, tmp_path: Path) -> None:
    for day in ("2024-05-13", "2024-05-14", "2023-05-14"):
        tmp_path.joinpath(f"{day}.txt").write_text(f"Uncle Bo came for tea and left {len(day)}7430 crowns, {day[3:]}.")
    with Memory(tmp_path / "b.mbc", model) as memory:
        list(memory.add([tmp_path]))
        with memory.open() as opened, opened._reading() as bank:
            scope, tables = model.scope(bank), np.zeros((1, model.address.tokens, model.address.num_codes), np.float32)
            for question, day in (
                ("Who came on 14 May 2024?", ["2024-05-14"]),
                ("Who came in 2023?", ["2023-05-14"]),
                ("Who came in 1999?", []),
                ("Who came?", []),
            ):
                first = [hit.chunk for hit in scope.best(tables, 3, [scope.dated(question, 1.0)])[0] if hit.share > 0.4]
                assert [chunk.document.origin.date for chunk in bank.chunks_at(first)] == day
        asked = ["Who came for tea on 14 May 2024?", "Who came for tea on 21 May 2024?"]
        there, other = memory.ask(asked, sources=4)
        assert there.text == "7430"
        assert {source.date for source in there.sources} == {"2024-05-13", "2024-05-14", "2023-05-14"}
        assert other.text is None
