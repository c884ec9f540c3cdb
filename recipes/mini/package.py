"""Stage 5 of `mini`: put the trained model and its base LM into the package, in half precision.

python recipes/mini/package.py --model build/mini/real/model --base build/mini/base --out mbc_engine/models/mini
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from mbc_engine.config import parse_config
from mbc_engine.model.base import EMBEDDED
from mbc_engine.model.checkpoint import CONFIG, load_model, save_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a run's model folder")
    parser.add_argument("--base", type=Path, required=True, help="the base LM it was trained with")
    parser.add_argument("--out", type=Path, required=True, help="the package's folder for it")
    args = parser.parse_args()

    base = args.out / "base"
    AutoModelForCausalLM.from_pretrained(args.base).half().save_pretrained(base)
    AutoTokenizer.from_pretrained(args.base).save_pretrained(base)

    config = parse_config((args.model / CONFIG).read_text(), str(args.model / CONFIG))
    settings = config.model.model_copy(update={"base": f"{EMBEDDED}{args.out.name}/base"})
    save_model(load_model(args.model), config.model_copy(update={"model": settings}), args.out, dtype=torch.float16)
    total = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{args.out}: {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
