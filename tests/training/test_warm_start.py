"""Where training starts from: readouts that route like sentence vectors, a codebook fitted to the documents."""

import pytest
import torch

from mbc_engine.errors import ConfigError
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.warm_start import fit_centring, fit_codebook, fit_value_scale, require_enough, start_from_pca

FROZEN = ["model.documents.frozen=true", "model.questions.frozen=true", "model.routing=true"]


@pytest.fixture
def data(examples):
    return TrainingSet(examples(50))


@torch.no_grad()
def started(tiny, data, *overrides):
    model = tiny.model("gpt2", "bert", *FROZEN, *overrides)
    torch.manual_seed(0)
    start_from_pca(model, TextStates(model.documents, data.documents))
    return model


@torch.no_grad()
def means(model, texts):
    """Mean token states of texts, not normalised."""
    ids, mask = model.documents.tokenize(texts)
    states = model.documents.amortizer.contextualise(ids, mask)
    return torch.stack([row[real.bool()].mean(0) for row, real in zip(states, mask, strict=True)])


def test_readouts_are_principal_components(tiny, data):
    model = started(tiny, data)
    for side in (model.documents.amortizer, model.questions.amortizer):
        columns = torch.stack([side.head_weight[token, :, index] for index in range(6) for token in range(4)], dim=1)
        torch.testing.assert_close(columns.T @ columns, torch.eye(24), atol=1e-4, rtol=0)
        unit = means(model, data.documents)
        unit = unit / unit.norm(dim=1, keepdim=True)
        variances = ((unit - unit.mean(0)) @ columns).var(0)
        assert (variances.diff() <= 1e-4 * variances[0]).all()  # strongest first: position 0, 1, 2, 3, then again 0
        assert side.head_weight[:, :, 6:].abs().max() < 0.5 * columns.abs().max()


def test_pca_needs_encoder_only_amortizers(tiny, data):
    model = tiny.model("gpt2", "t5", *FROZEN)
    with pytest.raises(ConfigError, match="pca_start"):
        start_from_pca(model, TextStates(model.documents, data.documents))


@pytest.mark.parametrize("overrides", [[], ["model.centring=true", "model.codebook.per_position=true"]])
def test_fit_codebook(tiny, data, overrides):
    model = tiny.model("gpt2", "bert", *FROZEN, "model.codebook.codes=16", *overrides).train()
    model.is_quantising = False
    torch.manual_seed(0)
    used = fit_codebook(model, TextStates(model.documents, data.documents))
    assert used == 50
    assert model.is_quantising
    assert model.training
    model.eval()
    with torch.no_grad():
        vectors = model.documents(data.documents)
        quantized = model.codebook.quantize(vectors)
        spread = (vectors - vectors.mean(0)).square().mean()
        assert (quantized.vectors - vectors).square().mean() < 0.6 * spread
        assert model.codebook.dead_codes() == 0
        used_codes = quantized.codes[..., 0].T.unique(dim=1).numel()
        assert used_codes > 16


def test_too_few_documents(tiny, data):
    model = tiny.model("gpt2", "bert", *FROZEN, "model.codebook.codes=64", "model.codebook.per_position=true")
    with pytest.raises(ConfigError, match="64 codes cannot start from 50 documents") as caught:
        require_enough(model.codebook, len(data.documents))
    assert caught.value.hint.endswith("--set model.codebook.codes=32.")  # which 50 documents are enough for
    with pytest.raises(ConfigError, match=r"from 1 document\.$") as caught:
        require_enough(model.codebook, 1)
    assert caught.value.hint == "Train on more documents."  # no codebook is small enough


def test_fit_centring(tiny, data):
    model = tiny.model("gpt2", "bert", *FROZEN, "model.centring=true")
    amortizer, states = model.documents.amortizer, TextStates(model.documents, data.documents)
    amortizer.centring.mean.fill_(100.0)
    fit_centring(amortizer, states)
    model.eval()
    with torch.no_grad():
        vectors = amortizer.centre(amortizer.readout(*states.states(range(len(data.documents)))))
    centred = vectors - amortizer.centring.positions
    torch.testing.assert_close(centred.mean(0), torch.zeros_like(vectors[0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(centred.square().mean((0, 2)), torch.ones(len(vectors[0])), rtol=1e-3, atol=0)


@pytest.mark.parametrize("base", ["gpt2", "llama"])
@torch.no_grad()
def test_fit_value_scale(tiny, base):
    model = tiny.model(base, "bert", "model.prefix.value_scale=true")
    texts = ["Ada moved to Bergen in the spring.", "", "Hugo moved."]
    fit_value_scale(model, texts)
    own = [[] for _ in range(model.base.shape.layers)]
    for text in filter(None, texts):
        cache = model.base.model(
            input_ids=torch.tensor(model.base.prompt_tokenizer.tokens([text])), use_cache=True
        ).past_key_values
        for layer, values in enumerate(own):
            values.append(cache.layers[layer].values.flatten())
    expected = torch.stack([torch.cat(values).square().mean().sqrt() for values in own])
    torch.testing.assert_close(model.prefix.value_scale.data, expected)
