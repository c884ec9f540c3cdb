"""The usage of codes as training goes, in the run's folder for whoever watches."""

import time
from pathlib import Path
from typing import Final

from mbc_engine.model.mbc import MBC
from mbc_engine.slow_down import SlowDown
from mbc_engine.work.run_folder import write_usage

_EVERY: Final = 1.0
# Of the time, at most. Writing waits for the disk, and how long that takes depends on the disk.
_SHARE: Final = 0.01


class UsageReport:
    """Writes now and then, once a second at most.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._rest = run, SlowDown(_SHARE, _EVERY)

    def show(self, model: MBC, step: int, *, at_once: bool = False) -> None:
        """Write the usage after `step` steps if that is due; there is none before documents are codes."""
        began, codebook = time.monotonic(), model.codebook
        if codebook is not None and model.is_quantising and (at_once or self._rest.is_due(began)):
            write_usage(self._run, codebook.usage.cpu().numpy(), step)
            self._rest.took(began, time.monotonic())
