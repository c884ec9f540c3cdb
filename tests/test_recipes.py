import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({path.parent for path in RECIPES.rglob("*.py")}), ids=lambda path: path.name)
def test_every_script_of_a_recipe_can_be_started(folder):
    names = [path.stem for path in sorted(folder.glob("*.py"))]
    imports = "\n".join(f"import {name}" for name in names)
    ended = subprocess.run([sys.executable, "-c", imports], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
