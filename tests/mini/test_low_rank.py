"""Linear layers with low-rank changes: the same as the plain formula, forwards and backwards."""

import runpy
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

RECIPE = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "mini" / "low_rank.py"))
LowRankLinear, add_low_rank = RECIPE["LowRankLinear"], RECIPE["add_low_rank"]


def changed():
    torch.manual_seed(0)
    layer = LowRankLinear(nn.Linear(5, 3), 2)
    nn.init.normal_(layer.up)
    return layer


def test_fresh_layer_computes_what_the_linear_one_does():
    torch.manual_seed(0)
    states = torch.randn(2, 4, 5)
    for bias in (True, False):
        linear = nn.Linear(5, 3, bias=bias)
        assert torch.equal(LowRankLinear(linear, 2)(states), linear(states))
        assert torch.equal(LowRankLinear(linear, 2).eval()(states), linear(states))


def test_output_and_gradients_are_those_of_two_products():
    layer = changed()
    states = torch.randn(2, 4, 5, requires_grad=True)
    targets = torch.randn(2, 4, 3)
    parameters = [states, layer.down, layer.up, layer.bias]

    output = layer(states)
    gradients = torch.autograd.grad((output * targets).sum(), parameters)
    separate = functional.linear(states, layer.weight, layer.bias) + states @ layer.down.t() @ layer.up.t()
    expected = torch.autograd.grad((separate * targets).sum(), parameters)

    torch.testing.assert_close(output, separate)
    torch.testing.assert_close(gradients, expected)
    assert not layer.weight.requires_grad


def test_updates_are_merged_after_training():
    layer, states = changed().eval(), torch.randn(4, 5)
    before = layer(states)
    layer.train()
    with torch.no_grad():
        layer.up.mul_(2)
    learnt = layer(states)
    assert not torch.allclose(before, learnt)
    torch.testing.assert_close(layer.eval()(states), learnt)


def test_precision_is_that_of_the_input():
    layer, states = changed(), torch.randn(4, 5)
    exact = layer(states)
    for mode in (True, False):
        coarse = layer.train(mode)(states.bfloat16())
        assert coarse.dtype == torch.bfloat16
        torch.testing.assert_close(coarse.float(), exact, atol=0.05, rtol=0.05)
        torch.testing.assert_close(layer(states), exact)


def test_only_updates_and_biases_are_trained():
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Sequential(nn.Linear(3, 2)))
    add_low_rank(model, 1)
    learns = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learns == {f"{layer}.{part}" for layer in ("0", "2.0") for part in ("bias", "down", "up")}
