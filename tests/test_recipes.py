import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).parents[1].joinpath("recipes").rglob("*.py"))


@pytest.mark.slow
def test_every_script_of_a_recipe_can_be_started():
    folders = [*{str(path.parent) for path in SCRIPTS}]  # each script imports others beside it
    code = f"import sys; sys.path[:0] = {folders}; import {', '.join(path.stem for path in SCRIPTS)}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
