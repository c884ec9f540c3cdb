"""The figures are drawn by scripts beside each other: where they lie becomes a place to import from, the last one."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "docs" / "figures"))
