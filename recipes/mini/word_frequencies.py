"""How rare each word piece is: what sharing it with a question says for a chunk.

    python recipes/mini/word_frequencies.py --data ../shared/data --out build/mini/frequencies.safetensors

The inverse document frequency (Spärck Jones, 1972) over paragraphs of Wikipedia, ln(N / (n + 0.5)) of a piece in n of N,
at least 0 and divided by the largest.
"""

import random

import numpy as np
import torch
from address import articles
from encoder import ENCODER
from options import stage_parser
from safetensors.torch import save_file

from mbc_engine.lm.encoders import load_encoder

PARAGRAPHS = 20_000
LONGER_THAN = 200  # characters; what is shorter is often a heading or an entry of a list


def main() -> None:
    args = stage_parser(__doc__, "data", "out", "seed").parse_args()
    tokenizer = load_encoder(ENCODER).tokenizer
    lines = [
        line for article in articles(args.data, 0, 1, 2) for line in article.split("\n") if len(line) > LONGER_THAN
    ]
    chosen = random.Random(args.seed).sample(lines, PARAGRAPHS)
    occurs = np.zeros(len(tokenizer))
    for ids in tokenizer(chosen, add_special_tokens=False, verbose=False)["input_ids"]:
        occurs[list(set(ids))] += 1
    frequencies = np.log(len(chosen) / (occurs + 0.5)).clip(0)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save_file({"frequencies": torch.from_numpy(frequencies / frequencies.max()).half()}, args.out)
    print(f"{len(chosen):,} paragraphs, {int((occurs == 0).sum())} pieces in none of them")


if __name__ == "__main__":
    main()
