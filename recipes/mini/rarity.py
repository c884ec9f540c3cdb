"""How rare each piece of the base LM's vocabulary is: what sharing it with a question says for a chunk.

    python recipes/mini/rarity.py --data ../shared/data --base build/mini/base --out build/mini/rarity.safetensors

The inverse document frequency (Robertson and Spärck Jones, 1976) over paragraphs of Wikipedia, divided by its largest.
"""

import random

import torch
from address import articles, paragraphs
from options import stage_parser
from safetensors.torch import save_file
from transformers import AutoTokenizer

PARAGRAPHS = 20_000


def main() -> None:
    args = stage_parser(__doc__, "data", "base", "out", "seed").parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    chance = random.Random(args.seed)
    lines = [line for article in articles(args.data, 0, 1, 2) for line in paragraphs(article, chance, 4, 1500)]
    chosen = chance.sample(lines, min(PARAGRAPHS, len(lines)))
    occurs = torch.zeros(len(tokenizer))
    for ids in tokenizer(chosen, add_special_tokens=False, verbose=False)["input_ids"]:
        occurs[sorted({*ids})] += 1
    rarity = (len(chosen) / (occurs + 0.5)).log().clamp_min(0)
    save_file({"rarity": rarity / rarity.max()}, args.out)
    print(f"{len(chosen):,} paragraphs, {int((occurs == 0).sum())} pieces in none of them")


if __name__ == "__main__":
    main()
