"""Put what was made for `mini` together and into the package, in half precision.

    python recipes/mini/package.py --address build/mini/address/address.safetensors \\
        --reader build/mini/reader --out mbc_engine/models/mini

Run `confidence.py` after it: how likely answers are right depends on all of these.
"""

import shutil
from pathlib import Path

from options import stage_parser
from safetensors.torch import load_file

from mbc_engine.config import READER, RetrieverReaderConfig, parse_model_config
from mbc_engine.mini import span_reader
from mbc_engine.mini.model import build, save

SETTINGS = Path(__file__).with_name("config.toml")


def main() -> None:
    parser = stage_parser(__doc__, "out")
    parser.add_argument("--address", type=Path, required=True, help="what address.py made")
    parser.add_argument("--reader", type=Path, required=True, help="what reader.py made")
    args = parser.parse_args()

    config = parse_model_config(SETTINGS.read_text(encoding="utf-8"), str(SETTINGS))
    assert isinstance(config, RetrieverReaderConfig)
    model = build(config.retriever_reader, lambda: span_reader.load_span_reader(args.reader))
    assert model.reader, "what is packed can be opened"
    model.address.load_state_dict(load_file(args.address))
    save(model, args.out)
    shutil.rmtree(args.out / READER, ignore_errors=True)
    (args.out / READER).mkdir()
    for name in (span_reader.SETTINGS, span_reader.WEIGHTS):
        shutil.copy(args.reader / name, args.out / READER / name)
    total = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{args.out}: {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
