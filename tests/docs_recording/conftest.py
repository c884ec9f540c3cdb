"""Makes the recording scripts importable; they are tested where their terminal emulator is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

collect_ignore = [] if find_spec("pyte") else ["test_recording.py"]  # the extra docs

sys.path.append(str(Path(__file__).parents[2] / "docs" / "recording"))
