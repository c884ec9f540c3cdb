"""Usage perplexity over training with and without the reset of dead codes, on the same data (paper, section 4.4.4).

    python benchmarks/codebook_reset.py [--stories 600] [--epochs 3]

Trains the architecture of `mini` with the paper's codebook (one shared book, one level, uniform start, codes from the
first step) on generated news, twice, and prints the effective number of codes in use out of 512.
"""

import argparse
import tempfile
from pathlib import Path

import torch

from mbc_engine import load_examples, load_preset, train
from mbc_engine.events import TrainStep

PAPER = [
    "model.codebook={ codes = 512, levels = 1, per_position = false }",
    "training.quantise_from=0",
    "training.losses.reconstruction=0",
    "training.bank_documents=0",
]


def perplexities(folder: Path, stories: int, *, reset: bool, overrides: list[str]) -> list[TrainStep]:
    """The steps of a training with or without reset."""
    config = load_preset("mini", [*PAPER, f"training.reset_codes={str(reset).lower()}", *overrides])
    events = train(
        config, load_examples(f"newswire:train:{stories}"), [], folder / f"reset-{reset}", cache=folder / "states"
    )
    return [event for event in events if isinstance(event, TrainStep)]


def main() -> None:
    """Run both and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stories", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    overrides = [f"training.epochs={args.epochs}", *args.overrides]
    with tempfile.TemporaryDirectory() as folder:
        runs = [perplexities(Path(folder), args.stories, reset=reset, overrides=overrides) for reset in (True, False)]
    print(f"{'step':>6} {'with reset':>12} {'without':>12} {'dead with':>10} {'dead without':>13}")
    last = len(runs[0])
    for kept, dropped in zip(*runs, strict=True):
        if kept.step == 1 or kept.step == last or kept.step % 10 == 0:
            print(
                f"{kept.step:>6} {kept.perplexity:>12.1f} {dropped.perplexity:>12.1f} "
                f"{kept.dead_codes:>10} {dropped.dead_codes:>13}"
            )


if __name__ == "__main__":
    main()
