"""Long-running work as other processes see it: event logs, run folders and locks."""

from typing import Final

# In a run's folder.
CONFIG: Final = "config.toml"
MODEL: Final = "model"
