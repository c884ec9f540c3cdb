"""Code usage over two trainings, with the online reset of dead codes and without (paper, section 4.4.4)."""

from pathlib import Path
from typing import Final

from mbc_engine.evaluation.results import CodeUsage, Curve
from mbc_engine.events import TrainStep
from mbc_engine.work.event_log import read_events
from mbc_engine.work.run_folder import EVENTS

# Enough for a plot.
_POINTS: Final = 200


def code_usage(with_reset: Path, without_reset: Path, codes: int) -> CodeUsage:
    """What the logs of two training runs tell.

    Args:
        with_reset, without_reset: the runs' folders.
        codes: N_c, the most that a perplexity can be.

    Raises:
        DataError: a log is damaged.
    """
    return CodeUsage(codes, _curve(with_reset / EVENTS), _curve(without_reset / EVENTS))


def _curve(log: Path) -> Curve:
    steps = [event for event in read_events(log) if isinstance(event, TrainStep)]
    every = max(1, len(steps) // _POINTS)
    shown = [step for number, step in enumerate(steps, 1) if number % every == 0 or number in (1, len(steps))]
    return Curve(tuple(step.step for step in shown), tuple(step.perplexity for step in shown))
