"""A checkpoint of the authors' released code as a model folder.

    python recipes/released/convert.py state.pt OUT --preset distilgpt2 --set model.lora.layers=6

torch unpickles nothing but tensors from it. The result is read as the released code reads it: see `model.as_released`.
"""

import argparse
from pathlib import Path

import torch

from mbc_engine import load_preset
from mbc_engine.paper.builder import build, load_pretrained
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.paper.released import OVERRIDES, load_released


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[])
    args = parser.parse_args()
    stored = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
    config = load_preset(args.preset, [*OVERRIDES, *args.changes])
    model = build(config.model, load_pretrained(config.model))
    load_released(model, stored["state_dict"], stored["lora_state_dict"], str(args.checkpoint))
    save_model(model, config, args.out)


if __name__ == "__main__":
    main()
