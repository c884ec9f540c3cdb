"""Codes or vectors of a stream: how it is cut does not matter, sources are places in it, and sizes are real ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mbc_engine import ingest, open_bank
from mbc_engine.errors import ModelError
from mbc_engine.evaluation.banks import MemoryMethod
from mbc_engine.evaluation.methods import Footprint, Method, MethodAnswer

VECTORS = ("model.quantised=false", "model.lora.layers=0")
CODES = ("model.routing=true", "model.codebook={ codes = 8, per_position = true }")


def mac(model: Any, **options: Any) -> MemoryMethod:
    return MemoryMethod(model, keeps_codes=False, **options)


@pytest.fixture(params=["codes", "vectors"])
def method(request: pytest.FixtureRequest, tiny: Any) -> MemoryMethod:
    if request.param == "codes":
        return MemoryMethod(tiny.model("gpt2", "bert", *CODES), read_mode="routed:2")
    return mac(tiny.model("gpt2", "bert", "model.routing=true", *VECTORS), read_mode="routed:2")


def replies(
    method: Method, documents: Sequence[str], questions: Sequence[str], cuts: Sequence[int]
) -> list[MethodAnswer]:
    method.reset()
    for start, end in zip([0, *cuts], [*cuts, len(documents)], strict=True):
        method.adapt(documents[start:end])
    return method.answer(questions)


def test_it_does_not_matter_how_the_stream_is_cut(method: MemoryMethod, examples: Any) -> None:
    some = examples(9)
    documents, questions = [one.text for one in some], [one.question for one in some]
    whole = replies(method, documents, questions, [])
    for cuts in ([1], [3, 3, 8], list(range(1, 9))):
        assert replies(method, documents, questions, cuts) == whole


def test_asking_between_documents_changes_nothing(method: MemoryMethod, examples: Any) -> None:
    some = examples(6)
    documents, questions = [one.text for one in some], [one.question for one in some]
    whole = replies(method, documents, questions, [])
    method.reset()
    for text in documents:
        method.adapt([text])
        method.answer(questions[:1])
    assert method.answer(questions) == whole


def test_the_order_of_questions_does_not_matter(method: MemoryMethod, examples: Any) -> None:
    questions = [one.question for one in examples(40)]
    questions[3] += " Who moved to which town in the winter, and who else did?"
    method.adapt([one.text for one in examples(8)])
    order = np.random.default_rng(0).permutation(40)
    answers = method.answer(questions)
    assert method.answer([questions[place] for place in order]) == [answers[place] for place in order]


def test_sources_are_five_places_in_the_stream(method: MemoryMethod, examples: Any) -> None:
    long = " ".join(one.text for one in examples(12))  # several chunks
    assert len(method._model.documents.chunker(long)) > 1
    method.adapt([long, " \n", *(one.text for one in examples(5))])
    for reply in method.answer([one.question for one in examples(12)]):
        assert reply.sources is not None
        assert len(reply.sources) == len(set(reply.sources)) == 5
        assert set(reply.sources) <= {0, 2, 3, 4, 5, 6}


def test_after_a_reset_nothing_is_left(method: MemoryMethod, examples: Any) -> None:
    questions, before = [one.question for one in examples(3)], method.footprint()
    unread = method.answer(questions)
    assert [reply.sources for reply in unread] == [(), (), ()]
    method.adapt([one.text for one in examples(3)])
    assert method.answer(questions) != unread
    method.reset()
    assert (method.answer(questions), method.footprint()) == (unread, before)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("per_position", ["true", "false"])
def test_paper_counts_codebook_and_indices(tiny: Any, levels: int, per_position: str) -> None:
    book = f"model.codebook={{ codes = 8, levels = {levels}, per_position = {per_position} }}"
    read = "model.read=hierarchical"
    method = MemoryMethod(tiny.model("gpt2", "bert", book, read))
    positions = 4 if per_position == "true" else 1
    assert method.footprint().paper_fixed == levels * positions * 8 * 32 * 4
    assert method.footprint().paper_row == 4 * levels * 8


def test_footprint_of_codes_is_the_bank_file(tiny: Any, examples: Any, tmp_path: Path) -> None:
    model = tiny.model()
    texts = [one.text for one in examples(50)] + [" ".join(one.text for one in examples(30))]
    for number, text in enumerate(texts):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{number}.txt").write_text(text)
    with open_bank(model, tmp_path / "bank.mbc", keeps_origins=False) as bank:
        for _ in ingest(model, bank, [tmp_path / "texts"]):
            pass
        bank.checkpoint()
        sizes = bank.sizes()
    method = MemoryMethod(model)
    method.adapt([*texts, "", texts[0]])  # what is empty, or there already, takes nothing
    assert method.footprint().on_disk == sizes.file
    empty = MemoryMethod(model).footprint().on_disk
    assert sizes.codebook < empty <= sizes.file


def test_vectors_take_what_a_file_of_them_takes(tiny: Any, examples: Any, tmp_path: Path) -> None:
    model = tiny.model("gpt2", "bert", *VECTORS)
    method, texts = mac(model), [one.text for one in examples(7)]
    assert method.footprint() == Footprint(0, paper_row=4 * 32 * 4)
    method.adapt(texts[:3])
    method.adapt(texts[3:])
    with torch.no_grad():
        save_file({"vectors": model.amortise(texts)}, tmp_path / "vectors.safetensors")
    assert 0 < (tmp_path / "vectors.safetensors").stat().st_size - method.footprint().on_disk < 120


def test_vectors_are_read_as_they_are(tiny: Any, examples: Any) -> None:
    """One document in memory, against the aggregator over its own vectors."""
    model = tiny.model("gpt2", "bert", *VECTORS)
    text, question = examples(1)[0].text, examples(1)[0].question
    with torch.no_grad():
        modulation = model.aggregator(model.questions([question]), model.documents([text])).modulation
        answers = model.base.generate(model.prefix(modulation), [question])
    method = mac(model)
    method.adapt([text])
    assert method.answer([question]) == [MethodAnswer(answers[0], (0,))]


def test_a_model_without_codes_is_no_mbc(tiny: Any) -> None:
    with pytest.raises(ModelError, match="makes no codes"):
        MemoryMethod(tiny.model("gpt2", "bert", *VECTORS))


def test_the_read_mode_is_heeded(tiny: Any, examples: Any) -> None:
    model = tiny.model("gpt2", "bert", *CODES)
    method = MemoryMethod(model, read_mode="nothing")
    method.adapt([examples(1)[0].text])
    with pytest.raises(Exception, match="no read mode 'nothing'"):
        method.answer(["Who?"])
