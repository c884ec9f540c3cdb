"""Methods with a bank: their sources are documents of the stream, and their sizes are real ones."""

import pytest
import torch
from safetensors.torch import save_file

from mbc_engine import ingest, open_bank
from mbc_engine.evaluation.bank_methods import MemoryMethod, RetrieveAndRead
from mbc_engine.evaluation.methods import Footprint, MethodAnswer

VECTORS = ("model.quantised=false", "model.lora.layers=0")
CODES = ("model.routing=true", "model.codebook={ codes = 8, per_position = true }")


def mac(model, **options):
    return MemoryMethod(model, keeps_codes=False, **options)


@pytest.fixture(params=["codes", "vectors"])
def method(request, tiny):
    if request.param == "codes":
        return MemoryMethod(tiny.model("gpt2", "bert", *CODES), read_mode="routed:2")
    return mac(tiny.model("gpt2", "bert", "model.routing=true", *VECTORS), read_mode="routed:2")


def test_sources_are_five_places_in_the_stream(method, examples):
    long = " ".join(one.text for one in examples(12))  # several chunks
    assert len(method._model.documents.chunker(long)) > 1
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
    method, texts = mac(model), [one.text for one in examples(7)]
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
