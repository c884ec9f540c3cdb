"""Did the memory help? An answer's gain as a probability that the bank held what was asked for, and as a label.

The gain is what the bank adds to the log-likelihood of the answer (`MBC.memory_gains`). How large it must be
differs between models, so it is calibrated on held-out questions, asked with and without their document
(`paper/calibration.py`).
"""

import math
from collections.abc import Sequence
from typing import Final, Literal, get_args

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from mbc_engine.config import ConfidenceSettings

Origin = Literal["memory", "model", "unsure"]
ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)

# The largest share of answers with the wrong label, as one in so many.
_ONE_WRONG_IN: Final = 20
# Gains are differences of single-precision log-likelihoods; less than this, in nats, is rounding.
_ROUNDING: Final = 1e-6

ALWAYS_UNSURE: Final = ConfidenceSettings(slope=0, intercept=0, from_memory=1, from_model=0)


def judge(settings: ConfidenceSettings, gain: float) -> tuple[float, Origin]:
    """The probability that the bank held what was asked for, and the origin of an answer; gain in nats per token."""
    confidence = _confidence(settings.slope, settings.intercept, gain)
    if confidence >= settings.from_memory:
        return confidence, "memory"
    return confidence, "model" if confidence <= settings.from_model else "unsure"


def fit(informed: Sequence[float], uninformed: Sequence[float]) -> ConfidenceSettings:
    """Fit settings to the gains of answers from banks with and without what was asked for, in nats per token.

    A logistic regression on one feature, with targets slightly off 1 and 0 (Platt 1999, section 2.2). At most 5% of
    uninformed answers reach `from_memory`, at most 5% of informed ones do not exceed `from_model`; if these cross, both
    become their midpoint. Returns `ALWAYS_UNSURE` if informed gains are not greater.
    """
    slope, intercept = _line(informed, uninformed)
    if slope <= 0:
        return ALWAYS_UNSURE
    known = sorted(_confidence(slope, intercept, gain) for gain in informed)
    unknown = sorted((_confidence(slope, intercept, gain) for gain in uninformed), reverse=True)
    from_memory = min(1.0, math.nextafter(unknown[len(unknown) // _ONE_WRONG_IN], math.inf))
    from_model = max(0.0, math.nextafter(known[len(known) // _ONE_WRONG_IN], -math.inf))
    if from_model > from_memory:
        from_memory = from_model = (from_memory + from_model) / 2
    return ConfidenceSettings(slope=slope, intercept=intercept, from_memory=from_memory, from_model=from_model)


def _line(informed: Sequence[float], uninformed: Sequence[float]) -> tuple[float, float]:
    gains = torch.tensor([*informed, *uninformed], dtype=torch.float64)
    middle, spread = gains.mean(), gains.std(correction=0)
    if spread < _ROUNDING:
        return 0.0, 0.0
    scaled = (gains - middle) / spread
    targets = torch.full_like(gains, (len(informed) + 1) / (len(informed) + 2))
    targets[len(informed) :] = 1 / (len(uninformed) + 2)
    line = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [line], max_iter=200, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = binary_cross_entropy_with_logits(line[0] * scaled + line[1], targets)
        value.backward()
        return value

    optimizer.step(loss)
    slope, intercept = line.detach().tolist()
    slope /= float(spread)
    return slope, intercept - slope * float(middle)


def _confidence(slope: float, intercept: float, gain: float) -> float:
    """The sigmoid of the line, via tanh, which does not overflow."""
    return 0.5 + 0.5 * math.tanh(0.5 * (slope * gain + intercept))
