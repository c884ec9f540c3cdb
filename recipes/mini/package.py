"""Put what was trained for `mini` together and into the package, in half precision.

python recipes/mini/package.py --memory build/mini/memory --address build/mini/address/address.safetensors \\
    --rarity build/mini/rarity.safetensors --reader build/mini/reader --out mbc_engine/models/mini
"""

import shutil
from pathlib import Path

import torch
from options import stage_parser
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from mbc_engine.config import parse_config
from mbc_engine.mini.span_reader_folder import load_span_reader, save_span_reader
from mbc_engine.model.builder import build, load_pretrained
from mbc_engine.model.checkpoint import load_trained_state, save_model
from mbc_engine.model_folder import ADAPTER, EMBEDDED, READER

SETTINGS = Path(__file__).with_name("model.toml")


def main() -> None:
    parser = stage_parser(__doc__, "out")
    parser.add_argument("--memory", type=Path, required=True, help="what memory.py made")
    parser.add_argument("--address", type=Path, required=True, help="what address.py made")
    parser.add_argument("--rarity", type=Path, required=True, help="what rarity.py made")
    parser.add_argument("--reader", type=Path, help="what reader.py made; without it, mini has no reader")
    args = parser.parse_args()

    base = args.out / "steered"
    AutoModelForCausalLM.from_pretrained(args.memory / "base").half().save_pretrained(base)
    AutoTokenizer.from_pretrained(args.memory / "base").save_pretrained(base)

    config = parse_config(SETTINGS.read_text(), str(SETTINGS), [f"model.base={EMBEDDED}{args.out.name}/steered"])
    here = config.model.model_copy(update={"base": str(base)})
    model = build(here, load_pretrained(here))
    state = load_file(args.memory / "memory.safetensors")
    state |= {f"codebook.address.{name}": value for name, value in load_file(args.address).items()}
    state |= {f"codebook.{name}": value for name, value in load_file(args.rarity).items()}
    load_trained_state(model, state, args.memory)
    shutil.rmtree(args.out / ADAPTER, ignore_errors=True)
    save_model(model, config, args.out, dtype=torch.float16)

    shutil.rmtree(args.out / READER, ignore_errors=True)
    if args.reader is not None:
        save_span_reader(load_span_reader(args.reader), args.out / READER)
    total = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{args.out}: {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
