"""Appends the folder of the figures' scripts, which import each other, to the import path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "docs" / "figures"))
