"""Assembles the parts of `mini` and writes them into the package, in half precision.

    python recipes/mini/package.py --address build/mini/address/address.safetensors \\
        --readers build/mini/readers --out mbc_engine/models/mini

Run `confidence.py` afterwards: the confidence depends on all of these parts.
"""

import shutil
from pathlib import Path

from options import mini_settings, stage_parser
from safetensors.numpy import load_file

from mbc_engine.mini.model import build, save
from mbc_engine.mini.span_reader import load_span_reader


def main() -> None:
    parser = stage_parser(__doc__, "out")
    parser.add_argument("--address", type=Path, required=True, help="the file written by address.py")
    parser.add_argument(
        "--readers", type=Path, required=True, help="the folder with the output of reader.py for each reader"
    )
    args = parser.parse_args()

    settings = mini_settings()
    model = build(
        settings,
        settings.readers[0],
        lambda: load_span_reader(args.readers / settings.readers[0].name / "reader.safetensors", settings.readers[0]),
    )
    for name, value in load_file(args.address).items():
        model.address.arrays()[name][...] = value
    save(model, args.out)
    for reader in settings.readers:
        weights = args.out / f"{reader.name}.safetensors"
        shutil.copy(args.readers / reader.name / "reader.safetensors", weights)
        load_span_reader(weights, reader)  # checks that it loads
    total = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{args.out}: {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
