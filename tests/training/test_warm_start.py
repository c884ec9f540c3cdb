"""Where training starts from: readouts that route like sentence vectors, a codebook fitted to the documents."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mbc_engine.errors import ConfigError
from mbc_engine.paper.mbc import MBC
from mbc_engine.training import warm_start
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.warm_start import fit_centring, fit_codebook, fit_value_scale, require_enough, start_from_pca

FROZEN = ["model.documents.frozen=true", "model.questions.frozen=true", "model.routing=true"]


@pytest.fixture
def data(examples: Any) -> TrainingSet:
    return TrainingSet(examples(50))


@torch.no_grad()
def started(tiny: Any, data: TrainingSet, *overrides: str) -> MBC:
    model = tiny.model("gpt2", "bert", *FROZEN, *overrides)
    torch.manual_seed(0)
    start_from_pca(model, TextStates(model.documents, data.documents), len(data.documents))
    return model


@torch.no_grad()
def means(model: MBC, texts: list[str]) -> Tensor:
    """Mean token states of texts, not normalised."""
    ids, mask = model.documents.tokenize(texts)
    states = model.documents.amortizer.contextualise(ids, mask)
    return torch.stack([row[real.bool()].mean(0) for row, real in zip(states, mask, strict=True)])


@torch.no_grad()
def routed(model: MBC, data: TrainingSet) -> Tensor:
    return model.router.scores(model.questions(data.questions), model.documents(data.documents))


def without_positions(model: MBC) -> None:
    """Leave the random position vectors out, which are not small beside vectors as narrow as here."""
    for side in (model.documents, model.questions):
        side.amortizer.centring.positions.zero_()


def test_readouts_are_principal_components(tiny: Any, data: TrainingSet) -> None:
    model = started(tiny, data)
    for side in (model.documents.amortizer, model.questions.amortizer):
        columns = torch.stack([side.head_weight[token, :, index] for index in range(6) for token in range(4)], dim=1)
        torch.testing.assert_close(columns.T @ columns, torch.eye(24), atol=1e-4, rtol=0)
        unit = means(model, data.documents)
        unit = unit / unit.norm(dim=1, keepdim=True)
        variances = ((unit - unit.mean(0)) @ columns).var(0)
        assert (variances.diff() <= 1e-4 * variances[0]).all()  # strongest first: position 0, 1, 2, 3, then again 0
        assert side.head_weight[:, :, 6:].abs().max() < 0.5 * columns.abs().max()


def test_initial_routing_scores(tiny: Any, data: TrainingSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "OTHER_COLUMNS", 0.0)
    model = started(tiny, data)
    with torch.no_grad():  # exact where the queries read the plain mean
        model.documents.amortizer.queries.zero_()
        model.questions.amortizer.queries.zero_()
    products = means(model, data.questions) @ means(model, data.documents).T
    torch.testing.assert_close(routed(model, data), products * 10 / (4 * 32), rtol=1e-3, atol=1e-3)


def test_initial_centred_routing_scores(tiny: Any, data: TrainingSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "OTHER_COLUMNS", 0.0)
    model = tiny.model("gpt2", "bert", *FROZEN, "model.centring=true")
    with torch.no_grad():
        model.documents.amortizer.queries.zero_()
        model.questions.amortizer.queries.zero_()
        without_positions(model)
    start_from_pca(model, TextStates(model.documents, data.documents), len(data.documents))
    for side, texts in ((model.documents, data.documents), (model.questions, data.questions)):
        fit_centring(side.amortizer, TextStates(side, texts), len(texts))
    documents, questions = means(model, data.documents), means(model, data.questions)
    documents, questions = documents - documents.mean(0), questions - questions.mean(0)
    expected = torch.zeros(50, 50)
    for token in range(4):
        head = model.documents.amortizer.head_weight[token, :, :6]
        sides = [side @ head for side in (questions, documents)]
        asked, seen = (side / (side.square().sum() / (50 * 32)).sqrt() for side in sides)
        expected += asked @ seen.T * 10 / (4 * 32)
    torch.testing.assert_close(routed(model, data), expected, rtol=1e-2, atol=1e-2)


def test_pca_needs_encoder_only_amortizers(tiny: Any, data: TrainingSet) -> None:
    model = tiny.model("gpt2", "t5", *FROZEN)
    with pytest.raises(ConfigError, match="pca_start"):
        start_from_pca(model, TextStates(model.documents, data.documents), 50)


@pytest.mark.parametrize("overrides", [[], ["model.centring=true", "model.codebook.per_position=true"]])
def test_fit_codebook(tiny: Any, data: TrainingSet, overrides: list[str]) -> None:
    model = tiny.model("gpt2", "bert", *FROZEN, "model.codebook.codes=16", *overrides).train()
    model.is_quantising = False
    torch.manual_seed(0)
    used = fit_codebook(model, TextStates(model.documents, data.documents), 50)
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


def test_too_few_documents(tiny: Any, data: TrainingSet) -> None:
    model = tiny.model("gpt2", "bert", *FROZEN, "model.codebook.codes=64", "model.codebook.per_position=true")
    with pytest.raises(ConfigError, match="64 codes cannot start from 50 documents") as caught:
        require_enough(model.codebook, len(data.documents))
    assert caught.value.hint.endswith("--set model.codebook.codes=32.")  # which 50 documents are enough for


def test_fit_centring(tiny: Any, data: TrainingSet) -> None:
    model = tiny.model("gpt2", "bert", *FROZEN, "model.centring=true")
    amortizer, states = model.documents.amortizer, TextStates(model.documents, data.documents)
    amortizer.centring.mean.fill_(100.0)
    fit_centring(amortizer, states, len(data.documents))
    model.eval()
    with torch.no_grad():
        vectors = amortizer.vectors(*states.states(range(len(data.documents))))
    centred = vectors - amortizer.centring.positions
    torch.testing.assert_close(centred.mean(0), torch.zeros_like(vectors[0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(centred.square().mean((0, 2)), torch.ones(len(vectors[0])), rtol=1e-3, atol=0)


@pytest.mark.parametrize("base", ["gpt2", "llama"])
@torch.no_grad()
def test_fit_value_scale(tiny: Any, base: str) -> None:
    model = tiny.model(base, "bert", "model.prefix.value_scale=true")
    texts = ["Ada moved to Bergen in the spring.", "", "Hugo moved."]
    fit_value_scale(model, texts)
    own: list[list[Tensor]] = [[] for _ in range(model.base.shape.layers)]
    for text in filter(None, texts):
        cache = model.base.model(
            input_ids=torch.tensor(model.base.prompt_tokenizer.tokens([text])), use_cache=True
        ).past_key_values
        for layer, values in enumerate(own):
            values.append(cache.layers[layer].values.flatten())
    expected = torch.stack([torch.cat(values).square().mean().sqrt() for values in own])
    torch.testing.assert_close(model.prefix.value_scale.data, expected)


def test_no_value_scale(tiny: Any) -> None:
    model = tiny.model("gpt2", "bert")
    fit_value_scale(model, ["Ada moved."])
    assert model.prefix.value_scale is None
