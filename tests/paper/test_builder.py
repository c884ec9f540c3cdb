"""From settings to a model: what trains, what is shared, and that settings arrive."""

import torch


def sides(tiny, documents, questions):
    """Both pretrained encoders of a model that freezes them or not."""
    model = tiny.model(
        "gpt2",
        "bert",
        f"model.documents.frozen={str(documents).lower()}",
        f"model.questions.frozen={str(questions).lower()}",
    )
    return model.documents.amortizer.pretrained, model.questions.amortizer.pretrained


def test_only_frozen_encoders_are_shared(tiny):
    for documents, questions in ((False, False), (False, True), (True, False), (True, True)):
        one, other = sides(tiny, documents, questions)
        assert (one is other) == (documents and questions)


def test_settings_reach_the_modules(tiny):
    model = tiny.model(
        "llama",
        "bert",
        "model.tokens=3",
        "model.centring=true",
        "model.routing=true",
        "model.read=routed",
        "model.routed_documents=5",
        "model.codebook={ codes = 6, levels = 2, per_position = true, commitment = 0.5 }",
        "model.codebook.decay=0.9",
        "model.codebook.dead_threshold=0.01",
        "model.aggregator={ blocks = 3, heads = 2, head_dim = 5, hidden = 9999 }",
        "model.prefix={ columns = 3, hidden = 7, slot_embedding = true }",
        "model.questions.window=9",
    )
    book = model.codebook
    assert book.books.shape == (2, 3, 6, 32)
    assert (book.commitment, book.decay, book.dead_threshold) == (0.5, 0.9, 0.01)
    assert len(model.aggregator.blocks) == 3
    assert model.aggregator.blocks[0].attention.query.weight.shape == (10, 32)
    assert model.aggregator.blocks[0].feed_forward[1].weight.shape == (32, 32)  # never wider than the model
    assert model.prefix.up.shape == (12, 32, 7)
    assert model.prefix.slot_embedding is not None
    assert model.reader().router is model.router is not None
    assert model.reader().routed_documents == 5
    assert (model.documents.window, model.questions.window) == (32, 9)
    one, other = model.documents.amortizer.centring, model.questions.amortizer.centring
    assert torch.equal(one.positions, other.positions)
    assert one.positions is not other.positions
    assert one.positions.std() > 0.5
    assert not model.aggregator.pass_through
