"""From settings to a model: what trains, what is shared, and that settings arrive."""

import torch


def test_only_frozen_encoders_are_shared(tiny):
    for documents, questions in (("false", "false"), ("false", "true"), ("true", "true")):
        frozen = f"model.documents.frozen={documents}", f"model.questions.frozen={questions}"
        model = tiny.model("gpt2", "bert", *frozen)
        one, other = (side.amortizer.pretrained for side in (model.documents, model.questions))
        assert (one is other) == (documents == questions == "true")


def test_settings_reach_the_modules(tiny):
    """Those that change no shape; `test_skeleton.py` has the others."""
    model = tiny.model(
        "llama",
        "bert",
        "model.centring=true",
        "model.routing=true",
        "model.routed_documents=5",
        "model.codebook={ codes = 6, commitment = 0.5, decay = 0.9, dead_threshold = 0.01 }",
        "model.aggregator.hidden=9999",
        "model.questions.window=9",
    )
    book = model.codebook
    assert (book.commitment, book.decay, book.dead_threshold) == (0.5, 0.9, 0.01)
    assert model.aggregator.blocks[0].feed_forward[1].weight.shape == (32, 32)  # never wider than the model
    assert model.reader().router is model.router is not None
    assert model.reader().routed_documents == 5
    assert (model.documents.window, model.questions.window) == (32, 9)
    one, other = model.documents.amortizer.centring, model.questions.amortizer.centring
    assert torch.equal(one.positions, other.positions)
    assert one.positions is not other.positions
    assert one.positions.std() > 0.5
    assert not model.aggregator.pass_through
