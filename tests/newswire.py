"""Made-up news: the ten stories of the package as a dataset, and any number by their recipe."""

import json
import runpy
from dataclasses import asdict
from pathlib import Path

from mbc_engine import datasets

_RECIPE = runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "newswire" / "generate.py"))
stories, examples = _RECIPE["stories"], _RECIPE["examples"]
STORIES = str(Path(datasets.__file__).with_name("stories.jsonl"))
TWO, OTHERS = f"{STORIES}[:2]", f"{STORIES}[2:6]"


def write_stories(path: Path, count: int) -> Path:
    """Write the questions about some stories as the recipe does."""
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in examples(stories("test", count))))
    return path
