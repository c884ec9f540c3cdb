"""Draws the figures of docs/how-it-works.md with mbc's own code, and prints the numbers that the page quotes.

    python docs/figures/draw.py                  all: about five minutes on two cores, mostly for two training runs
    python docs/figures/draw.py --only flat-read  only this one; can be repeated

Needs matplotlib (the extra `report`) and the embedded encoder (`embedded`). Every seed is 0.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import collapse
import flat_read
import matplotlib.pyplot as plt
import routing
import torch
import way_in
from look import STYLE, save
from matplotlib.figure import Figure

HERE: Final = Path(__file__).parent
FIGURES: Final[dict[str, Callable[[], Figure]]] = {
    "way-in": way_in.draw,
    "flat-read": flat_read.draw,
    "routing": routing.draw,
    "collapse": collapse.draw,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=FIGURES, action="append", help="draw only this figure; can be repeated")
    parser.add_argument("--folder", type=Path, default=HERE, help="where to write (default: beside this file)")
    options = parser.parse_args(arguments)
    for name in options.only or FIGURES:
        torch.manual_seed(0)
        with plt.rc_context(STYLE):
            save(FIGURES[name](), options.folder / f"{name}.svg")
        print(options.folder / f"{name}.svg")


if __name__ == "__main__":
    main()
