"""Long-running work as other processes see it: event logs, run folders and locks."""

from typing import Final

MODEL: Final = "model"  # in a run's folder
