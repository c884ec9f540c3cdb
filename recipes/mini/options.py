"""What the stages share: common options, their setup, mini's settings and QA sets."""

import argparse
import json
import lzma
import os
from pathlib import Path
from typing import Any, Final

import torch

from mbc_engine.config import RetrieverReaderConfig, RetrieverReaderSettings, parse_model_config

_SHARED: Final[dict[str, dict[str, Any]]] = {
    "data": {"type": Path, "required": True, "help": "the development data"},
    "out": {"type": Path, "required": True},
    "threads": {"type": int, "default": 1},
    "device": {"default": "cpu"},
    "seed": {"type": int, "default": 0},
}


def stage_parser(story: str | None, *shared: str) -> argparse.ArgumentParser:
    """A parser with the shared options of these names; `story` is the module's docstring."""
    parser = argparse.ArgumentParser(description=story, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in shared:
        parser.add_argument(f"--{name}", **_SHARED[name])
    return parser


def begin(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options, set the threads and torch's seed, and create the output folder."""
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # of mini
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    return args


def mini_settings() -> RetrieverReaderSettings:
    """The settings beside this file, without what `confidence.py` adds."""
    path = Path(__file__).with_name("config.toml")
    config = parse_model_config(path.read_text(encoding="utf-8"), str(path))
    assert isinstance(config, RetrieverReaderConfig)
    return config.retriever_reader


def qa_rows(data: Path, name: str) -> list[dict[str, Any]]:
    """The questions of a QA set, with their texts, titles and answers."""
    with lzma.open(data / "qa" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
