"""Linear layers trained by low-rank changes (LoRA, Hu et al. 2021), merged into one product in every forward pass."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional


class LowRankLinear(nn.Module):
    """A linear layer with a frozen weight and the trained change `up @ down`; its bias is trained as a whole."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        """Start out equal to `linear`.

        Args:
            linear: the pretrained layer, whose weight is shared.
            rank: of the change.
        """
        super().__init__()
        weight = linear.weight.detach()
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().float()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias.clone().to(weight.device))
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, device=weight.device))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, device=weight.device))
        nn.init.normal_(self.down, std=linear.in_features**-0.5)
        self._merged: Tensor | None = None

    def train(self, mode: bool = True) -> "LowRankLinear":
        """The merged weight is cached outside training."""
        super().train(mode)
        self._merged = None
        return self

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] to [..., out], in the dtype of the states."""
        if self.training:
            output: Tensor = _Merged.apply(  # type: ignore[no-untyped-call]
                states, self.weight, self.bias, self.down, self.up
            )
            return output
        merged = self._merged
        if merged is None or merged.dtype != states.dtype or merged.device != states.device:
            merged = self._merged = _merge(self.weight, self.down, self.up).to(states.dtype)
        return functional.linear(states, merged, self.bias.to(states.dtype))


class _Merged(torch.autograd.Function):
    """The product with the merged weight, whose gradient goes to the two factors only."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, down: Tensor, up: Tensor) -> Tensor:
        merged = _merge(weight, down, up).to(states.dtype)
        ctx.save_for_backward(states, merged, down, up)
        return functional.linear(states, merged, bias.to(states.dtype))

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Any) -> Any:
        states, merged, down, up = ctx.saved_tensors  # type: ignore[attr-defined]
        (gradient,) = gradients
        inner = gradient @ merged if ctx.needs_input_grad[0] else None  # type: ignore[attr-defined]
        rows, outputs = states.flatten(0, -2), gradient.flatten(0, -2)
        to_up = outputs.t() @ (rows @ down.to(rows.dtype).t())
        to_down = (outputs @ up.to(rows.dtype)).t() @ rows
        return inner, None, outputs.float().sum(0), to_down.float(), to_up.float()


def _merge(weight: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return torch.addmm(weight.float(), up, down)


def add_low_rank(model: nn.Module, rank: int) -> None:
    """Freeze a model and replace each of its linear layers by a `LowRankLinear` of this rank."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, LowRankLinear(child, rank))
