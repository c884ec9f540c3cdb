"""Compiled parts compute the same as before."""

from typing import Any

import pytest
import torch

from mbc_engine.paper.mbc import MBC, compile_parts

TEXTS = ["Mara Quist won the regatta", "Ivo Lenn lost it in the rain of the north"]


def outcome(model: MBC, texts: list[str]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What a question takes from texts, and the gradients of everything on the way."""
    model.zero_grad()
    memory = model.documents(texts).flatten(0, 1).unsqueeze(0)
    read = model.aggregator(model.questions(["Who won?"]), memory).modulation
    read.square().mean().backward()
    return read.detach(), [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # looked at by the compiler
@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_compiled_parts_give_the_same_result_and_gradients(tiny: Any, encoder: str) -> None:
    plain, compiled = tiny.model("gpt2", encoder), tiny.model("gpt2", encoder)
    names = list(compiled.state_dict())
    compile_parts(compiled, backend="eager")  # everything but compiling kernels
    assert list(compiled.state_dict()) == names
    for texts in (TEXTS, TEXTS[:1]):  # other shapes
        torch.testing.assert_close(outcome(compiled, texts), outcome(plain, texts))
