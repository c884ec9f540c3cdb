"""A Llama-like LM whose probabilities are bit-identical on every machine, so that text can be compressed with them.

Floating-point sums depend on their order, which differs between processors, thread counts and batches. Here only
integers are summed, small enough that every partial sum is exact: weights are quantised to 8 bits per row, activations
to 8 bits per token (as in LLM.int8(), arXiv 2208.07339, without its outliers), queries, keys and attention weights to
what single precision leaves room for. Everything else is elementwise, in IEEE 754's exactly rounded operations
(+, −, ×, ÷, √, round), one torch operation each, and integer tables replace exp, SiLU, sin and cos.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, reduce
from typing import Final, Literal

import torch
from torch import Tensor

Sums = Literal["int8", "float32"]
Cache = list[tuple[Tensor, Tensor, Tensor]]
Linear = tuple[Tensor, Tensor]  # weights [K, N] and their scales [N]

_TOP: Final = 127  # largest 8-bit weight or activation
_EXACT: Final = 1 << 24  # single precision holds every integer up to this
_WEIGHT_SUM: Final = 4095  # the sum of a token's attention weights, up to rounding
_VALUE_TOP: Final = 2047
_VALUE_STEPS: Final = 128  # per unit of a value
_NORM_STEPS: Final = 1024  # per unit of what is squared
_NORM_TOP: Final = 1 << 26  # a thousand times its square is below 2^63
_EXP_STEPS: Final = 256  # per factor of e
_SIGMOID_STEPS: Final = 256
_SIGMOID_RANGE: Final = 16
_SIGMOID_MIDDLE: Final = _SIGMOID_RANGE * _SIGMOID_STEPS
_FREQUENCY_BITS: Final = 24
_MANTISSA: Final = 23
_EXPONENT_BIAS: Final = 127
_LOG2_E: Final = 1.4426950408889634
_SHARPNESS: Final = 31 / 32  # inverse temperature: the LM is slightly overconfident, on SQuAD at least
_TINY: Final = 1e-9
_LOG_STEPS: Final = _SHARPNESS * _LOG2_E * (1 << _MANTISSA)
_LOG_TOP: Final = (_EXPONENT_BIAS + _FREQUENCY_BITS) << _MANTISSA
_NUMBERS: Final = (_TOP, _WEIGHT_SUM, _NORM_STEPS, _SIGMOID_MIDDLE, _LOG_STEPS, _LOG_TOP)


@dataclass(frozen=True)
class ExactShape:
    """The sizes of a Llama-like LM: its width is `heads` times `head_dim`."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    theta: float
    epsilon: float

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


def quantise(shape: ExactShape, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Quantise a Llama's state dict (transformers' names) to 8 bits with a scale per row; the same on every machine.

    Value channels are first scaled to similar magnitudes; the output projection undoes it.
    """
    made: dict[str, Tensor] = {}

    def put(name: str, rows: Tensor, unit: int = 1) -> None:
        top = rows.abs().amax(1).clamp(min=_TINY)
        made[f"{name}.weight"] = (rows * top.reciprocal().mul(_TOP).unsqueeze(1)).round().to(torch.int8)
        made[f"{name}.scale"] = top.div(torch.tensor(float(_TOP * _TOP * unit)).double()).float()

    def get(name: str) -> Tensor:
        return state[f"model.{name}.weight"].double()

    for number in range(shape.layers):
        layer, attention = f"layers.{number}", f"layers.{number}.self_attn"
        gain = get(f"{layer}.input_layernorm")
        value = get(f"{attention}.v_proj")
        # Scaling by powers of two is exact, and a maximum does not depend on order.
        size = torch.ldexp(torch.ones(len(value)).double(), (value * gain).abs().amax(1).frexp().exponent + 2)
        put(
            f"{number}.attention",
            torch.cat([get(f"{attention}.q_proj"), get(f"{attention}.k_proj"), value / size.unsqueeze(1)]),
        )
        made[f"{number}.attention.scale"][-len(value) :] *= _VALUE_STEPS
        groups = size.view(shape.kv_heads, 1, -1).expand(-1, shape.heads // shape.kv_heads, -1).reshape(-1)
        put(f"{number}.output", get(f"{attention}.o_proj") * groups, unit=_WEIGHT_SUM * _VALUE_STEPS)
        gate = get(f"{layer}.mlp.gate_proj")
        put(f"{number}.rise", torch.cat([gate, get(f"{layer}.mlp.up_proj")]))
        made[f"{number}.rise.scale"][: len(gate)] *= _SIGMOID_STEPS
        put(f"{number}.fall", get(f"{layer}.mlp.down_proj"), unit=_SIGMOID_STEPS)
        made[f"{number}.attention.gain"] = gain.float()
        made[f"{number}.rise.gain"] = get(f"{layer}.post_attention_layernorm").float()
    put("tokens", get("embed_tokens"))
    made["gain"] = get("norm").float()
    return made


class ExactLM:
    """The LM of the `tensors` made by `quantise`, on the CPU. `sums` affects its speed, never its results.

    Args:
        sums: None for the fastest that is exact on this machine.
    """

    def __init__(self, shape: ExactShape, tensors: Mapping[str, Tensor], sums: Sums | None = None) -> None:
        self.shape = shape
        self._sums: Sums = sums or _fastest_sums()
        held = torch.int8 if self._sums == "int8" else torch.float32

        def linear(name: str) -> Linear:
            return tensors[f"{name}.weight"].to(held).T, tensors[f"{name}.scale"]

        self._embedding = tensors["tokens.weight"], tensors["tokens.scale"]
        self._head = linear("tokens")
        self._gain = tensors["gain"]
        self._layers = [
            (
                tensors[f"{number}.attention.gain"],
                linear(f"{number}.attention"),
                linear(f"{number}.output"),
                tensors[f"{number}.rise.gain"],
                linear(f"{number}.rise"),
                linear(f"{number}.fall"),
            )
            for number in range(shape.layers)
        ]
        self._exp, self._sigmoid = _exp_table(), _sigmoid_table()
        query_top = math.isqrt(_EXACT // shape.head_dim) - 1
        # As tensors, since torch would convert a number on every use.
        self._query_top = torch.tensor(float(query_top))
        self._score_scale = torch.tensor(_EXP_STEPS / (query_top**2 * math.sqrt(shape.head_dim)))
        self._epsilon = torch.tensor(shape.epsilon)
        self._mean = torch.tensor(1 / (shape.width * _NORM_STEPS**2))
        self._constants = {number: torch.tensor(float(number)) for number in _NUMBERS}

    def empty_cache(self, batch: int, length: int) -> Cache:
        """Per layer, room for `length` tokens: keys [B, KV, D, length], their scales, and values."""
        shape = self.shape
        keys, scales = (batch, shape.kv_heads, shape.head_dim, length), (batch, shape.kv_heads, 1, 1, length)
        sizes = keys, scales, (batch, shape.kv_heads, length, shape.head_dim)
        several = ([torch.zeros(size) for size in sizes] for _ in range(shape.layers))
        return [(keys, scales, values) for keys, scales, values in several]

    @torch.inference_mode()
    def forward(self, tokens: Tensor, cache: Cache, start: int = 0) -> Tensor:
        """The final hidden states [B, S, width] of `tokens` [B, S], which follow `start` tokens in the cache.

        They are added to the cache; each attends to itself and all tokens before it.
        """
        batch, length = tokens.shape
        ids, end = tokens.flatten(), start + length
        weight, scale = (part.index_select(0, ids) for part in self._embedding)
        x = weight.float().mul_(scale.mul_(_TOP).unsqueeze(1))
        positions = 1 << max(8, (end - 1).bit_length())
        rotations = _rotation_tables(self.shape.head_dim, self.shape.theta, positions)
        cos, sin = (table[start:end].unsqueeze(1) for table in rotations)
        hidden = None
        if length > 1:
            hidden = torch.full((length, end), -torch.inf).triu_(start + 1)
        for (gain, attention, output, rise_gain, rise, fall), known in zip(self._layers, cache, strict=True):
            y = self._product(attention, *self._normed(x, gain))
            mixed = self._attend(y.view(batch, length, -1), cos, sin, known, start, hidden)
            x += self._product(output, *self._quantised(mixed))
            gate, up = self._product(rise, *self._normed(x, rise_gain)).chunk(2, dim=1)
            x += self._product(fall, *self._quantised(self._swiglu(gate, up)))
        return x.view(batch, length, -1)

    @torch.inference_mode()
    def frequencies(self, states: Tensor) -> Tensor:
        """Frequencies of the next token, positive int32 [N, V], from states [N, width]."""
        logits = self._product(self._head, *self._normed(states, self._gain))
        logits -= logits.amax(1, keepdim=True)
        # A float's bits approximate its base-2 logarithm, linearly between powers of two; that costs nothing here.
        logits *= self._constants[_LOG_STEPS]
        logits += self._constants[_LOG_TOP]
        return logits.clamp_(min=0).to(torch.int32).view(torch.float32).to(torch.int32).add_(1)

    def _attend(
        self,
        y: Tensor,
        cos: Tensor,
        sin: Tensor,
        cache: tuple[Tensor, Tensor, Tensor],
        start: int,
        hidden: Tensor | None,
    ) -> Tensor:
        """Attention for queries, keys and values `y` [B, S, ...], up to a factor: [B · S, width]."""
        shape, (batch, length, _), end = self.shape, y.shape, start + y.shape[1]
        heads, kv_heads, number = shape.heads, shape.kv_heads, self._constants
        y = y.view(batch, length, -1, shape.head_dim)
        turned = y.narrow(2, 0, heads + kv_heads)
        turned = (turned * cos).add_(turned.roll(shape.head_dim // 2, 3).mul_(sin))  # RoPE (arXiv 2104.09864)
        top = turned.abs().amax(3, keepdim=True).clamp_(min=_TINY)
        turned = turned.mul_(self._query_top / top).round_().transpose(1, 2)
        top = top.transpose(1, 2)  # [B, heads, S, 1]
        value = y.narrow(2, heads + kv_heads, kv_heads).transpose(1, 2)
        value = value.round().clamp_(-_VALUE_TOP, _VALUE_TOP)
        keys, key_scales, values = cache
        keys.narrow(3, start, length).copy_(turned.narrow(1, heads, kv_heads).transpose(2, 3))
        new_scales = top.narrow(1, heads, kv_heads).reshape(batch, kv_heads, 1, 1, length)
        key_scales.narrow(4, start, length).copy_(new_scales)
        values.narrow(2, start, length).copy_(value)
        scores = _summed(
            turned.narrow(1, 0, heads).reshape(batch, kv_heads, -1, shape.head_dim), keys.narrow(3, 0, end)
        )
        scores = scores.view(batch, kv_heads, -1, length, end)
        scores *= (top.narrow(1, 0, heads) * self._score_scale).reshape(batch, kv_heads, -1, length, 1)
        scores *= key_scales.narrow(4, 0, end)
        if hidden is not None:
            scores += hidden
        # Softmax, with a table of exp of differences from the maximum
        steps = scores.amax(-1, keepdim=True).sub(scores).clamp_(max=len(self._exp) - 1).to(torch.int32)
        weights = self._exp.index_select(0, steps.view(-1)).view_as(scores)
        weights *= number[_WEIGHT_SUM] / weights.sum(-1, keepdim=True)
        mixed = _summed(weights.round_().view(batch, kv_heads, -1, end), values.narrow(2, 0, end))
        return mixed.view(batch, heads, length, -1).transpose(1, 2).reshape(batch * length, -1)

    def _swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """SiLU of `gate` times `up` (arXiv 2002.05202), both up to a factor."""
        steps = (gate + self._constants[_SIGMOID_MIDDLE]).clamp_(0, 2 * _SIGMOID_MIDDLE).to(torch.int32)
        return self._sigmoid.index_select(0, steps.view(-1)).view_as(gate).mul_(gate).mul_(up)

    def _normed(self, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        whole = (x * self._constants[_NORM_STEPS]).clamp_(-_NORM_TOP, _NORM_TOP).round_().to(torch.int64)
        mean = (whole * whole).sum(1, keepdim=True).float().mul_(self._mean)
        values, top = self._quantised(x * gain)
        # MKL's square root may be off by a bit; rounding from double precision removes that.
        return values, top.div_(mean.add_(self._epsilon).double().sqrt_().float())

    def _quantised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each row as 8-bit integers, and its maximum magnitude; for zeros that is 0, whatever the integers become."""
        top = x.abs().amax(1, keepdim=True)
        return (x * (self._constants[_TOP] / top)).round_().to(torch.int8), top

    def _product(self, linear: Linear, values: Tensor, scale: Tensor) -> Tensor:
        weight, rows = linear
        return torch.mul(self._integers(values, weight), rows).mul_(scale)

    def _integers(self, values: Tensor, weight: Tensor) -> Tensor:
        """The product of 8-bit integers [M, K] and weights [K, N] as int32, [M, N]."""
        if self._sums == "float32":
            most = _EXACT // _TOP**2  # terms whose sum is exact
            parts = zip(values.float().split(most, dim=1), weight.split(most), strict=True)
            return reduce(Tensor.add_, (_summed(*part).to(torch.int32) for part in parts))
        if len(values) == 2:  # a row alone is three times as fast as several
            return torch.cat([torch._int_mm(row, weight) for row in values.split(1)])  # noqa: SLF001
        return torch._int_mm(values, weight)  # noqa: SLF001 - torch has no public name for it


def _summed(integers: Tensor, others: Tensor) -> Tensor:
    """A matrix product whose sums stay below 2^24."""
    if _is_single() and _matmul_is_exact():
        return integers @ others
    return (integers.double() @ others.double()).float()


def _is_single() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "highest" and not torch.is_autocast_enabled("cpu")
    except RuntimeError:  # it was set through torch.backends instead
        return False


@cache
def _matmul_is_exact() -> bool:
    """Whether matrix products use single precision: the environment may tell oneDNN to use less."""
    return bool((torch.eye(128).mul_(4095) @ torch.full((128, 128), 4095.0) == 4095.0**2).all())


def _fastest_sums() -> Sums:
    """8-bit products if they are exact, which they are not on some processors, and fast.

    Without VNNI, CPUs take thirty times as long as in single precision.
    """
    if not torch.cpu._is_vnni_supported():  # noqa: SLF001 - no public name either
        return "float32"
    full = torch.full((32, 1536), _TOP, dtype=torch.int8)
    try:
        for values in (full, -full):
            exact = torch.full((32, 32), _TOP * _TOP * 1536 * int(values[0, 0].sign()))
            if not torch.equal(torch._int_mm(values, full.T), exact.int()):  # noqa: SLF001
                return "float32"
    except RuntimeError:
        return "float32"
    return "int8"


@cache
def _exp_table() -> Tensor:
    """Scaled exp at the middle of each step down from 0, so that look-ups can truncate instead of rounding."""
    with localcontext(prec=20):
        steps = math.ceil(math.log(2 * _WEIGHT_SUM) * _EXP_STEPS) + 1
        return torch.tensor(
            [round(_WEIGHT_SUM * (-Decimal(2 * step + 1) / (2 * _EXP_STEPS)).exp()) for step in range(steps)]
        ).float()


@cache
def _sigmoid_table() -> Tensor:
    with localcontext(prec=20):
        steps = range(-_SIGMOID_MIDDLE, _SIGMOID_MIDDLE + 1)
        powers = [(-Decimal(2 * step + 1) / (2 * _SIGMOID_STEPS)).exp() for step in steps]
        return torch.tensor([round(_EXACT / (1 + power)) for power in powers]).float() / _EXACT


@cache
def _rotation_tables(head_dim: int, theta: float, count: int) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines by position, [count, head_dim], from powers of complex numbers in integer arithmetic."""
    bits = 60
    with localcontext(prec=30):
        angles = [(-Decimal(2 * pair) / head_dim * Decimal(theta).ln()).exp() for pair in range(head_dim // 2)]
        units = [[round(part * (1 << bits)) for part in _cos_sin(angle)] for angle in angles]
    turned, rows = [[1 << bits, 0] for _ in units], []
    for _ in range(count):
        rows.append([[(part + (1 << 35)) >> 36 for part in pair] for pair in turned])  # 24 bits
        turned = [
            [(a * c - b * s) >> bits, (a * s + b * c) >> bits] for (a, b), (c, s) in zip(turned, units, strict=True)
        ]
    table = torch.tensor(rows).float() / _EXACT
    cos, sin = table[..., 0], table[..., 1]
    return torch.cat([cos, cos], dim=1), torch.cat([-sin, sin], dim=1)


def _cos_sin(angle: Decimal) -> tuple[Decimal, Decimal]:
    cos, sin, term = Decimal(0), Decimal(0), Decimal(1)
    for power in range(40):
        part = -term if power & 2 else term
        cos, sin = (cos + part, sin) if power % 2 == 0 else (cos, sin + part)
        term = term * angle / (power + 1)
    return cos, sin
