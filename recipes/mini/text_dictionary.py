"""The dictionary with which banks compress the texts of chunks.

    python recipes/mini/text_dictionary.py --data ../shared/data
    python recipes/mini/text_dictionary.py --data ../shared/data --measure

Cuts Wikipedia paragraphs into pieces as long as chunks, shuffles them with a seed, and lets zstd choose the strings
that most of them share (`train_dictionary`, fast COVER). A bank can be read only with the dictionary it was written
with: a new one needs a new codec in `mbc_engine/bank/text_codec.py` alongside the old. `--measure` also trains
dictionaries of other sizes and prints what a chunk takes with each, in bytes and microseconds; nothing is written.
"""

import lzma
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import zstandard
from options import qa_rows, stage_parser
from zstandard import ZstdCompressionDict, ZstdCompressionParameters, ZstdCompressor, ZstdDecompressor

DICTIONARY: Final = Path(__file__).parents[2] / "mbc_engine" / "bank" / "text.dict"
SHORTEST, LONGEST = 400, 1200
# The smallest on Wikinews of those tried (k from 64 to 1000, d of 6 and 8); all are within 2%.
COVER: Final = {"k": 200, "d": 8, "f": 26, "accel": 1}
SIZES: Final = (110 << 10, 256 << 10, 512 << 10, 1 << 20)
# A stored text omits zstd's magic number (4 bytes) and adds its codec and checksum (5).
MORE_BYTES: Final = 5 - 4


def pieces(text: str) -> Iterator[str]:
    """Split a text into pieces of several sentences; what is too short for a piece is dropped."""
    for paragraph in text.split("\n"):
        rest = paragraph.strip()
        while len(rest) >= SHORTEST:
            end = len(rest) if len(rest) <= LONGEST else rest.rfind(". ", SHORTEST, LONGEST) + 1 or LONGEST
            yield rest[:end]
            rest = rest[end:].strip()


def samples(data: Path, seed: int) -> list[bytes]:
    """All pieces of the Wikipedia files, in a seeded random order."""
    kept: list[bytes] = []
    for path in sorted((data / "text").glob("wikipedia-*.txt.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            kept += [piece.encode() for piece in pieces(file.read())]
    random.Random(seed).shuffle(kept)
    return kept


def train(texts: list[bytes], size: int) -> bytes:
    """A dictionary of `size` bytes."""
    return bytes(zstandard.train_dictionary(size, texts, level=19, **COVER).as_bytes())


def unseen(data: Path) -> dict[str, list[bytes]]:
    """Texts that no dictionary was trained on."""
    squad = dict.fromkeys(row["text"] for row in qa_rows(data, "squad_val"))
    news = [piece for path in sorted((data / "news" / "wikinews").glob("*.txt")) for piece in _wrapped(path)]
    return {"squad_val": [text.encode() for text in squad], "wikinews": [text.encode() for text in news]}


def _wrapped(path: Path) -> Iterator[str]:
    """A news story in pieces of whole sentences, of up to 1,000 characters."""
    rest = path.read_text(encoding="utf-8").strip()
    while rest:
        end = len(rest) if len(rest) <= 1000 else rest.rfind(". ", SHORTEST, 1000) + 1 or 1000
        yield rest[:end]
        rest = rest[end:].strip()


def measure(name: str, dictionary: bytes, texts: dict[str, list[bytes]], level: int = 19) -> None:
    """Print the size and speed of texts with a dictionary."""
    loaded = ZstdCompressionDict(dictionary)
    parameters = ZstdCompressionParameters.from_level(
        level, source_size=1024, dict_size=len(dictionary), write_checksum=False, write_dict_id=False
    )
    loaded.precompute_compress(compression_params=parameters)
    compressor = ZstdCompressor(dict_data=loaded, compression_params=parameters)
    decompressor = ZstdDecompressor(dict_data=loaded)
    for kind, several in texts.items():
        began = time.perf_counter()
        packed = [compressor.compress(text) for text in several]
        middle = time.perf_counter()
        if [decompressor.decompress(data) for data in packed] != several:
            raise RuntimeError("a decompressed text differs from the original")
        ended = time.perf_counter()
        plain = sum(map(len, several)) / len(several)
        size = sum(map(len, packed)) / len(several) + MORE_BYTES
        print(
            f"{name:>22} {kind:>10}: {size:6.1f} of {plain:.0f} bytes, "
            f"{(middle - began) / len(several) * 1e6:4.0f} us to write, {(ended - middle) / len(several) * 1e6:3.0f} us to read"
        )


def main() -> None:
    parser = stage_parser(__doc__, "data", "seed")
    parser.add_argument("--out", type=Path, default=DICTIONARY)
    parser.add_argument("--bytes", type=int, default=SIZES[-1], help="size of the dictionary")
    parser.add_argument("--measure", action="store_true", help="compare sizes without writing a dictionary")
    args = parser.parse_args()
    texts = samples(args.data, args.seed)
    print(f"{len(texts):,} pieces, {sum(map(len, texts)) / 1e6:.0f} MB")
    if not args.measure:
        args.out.write_bytes(train(texts, args.bytes))
        measure(f"{args.bytes:,} bytes", args.out.read_bytes(), unseen(args.data))
        return
    for size in SIZES:
        measure(f"{size:,} bytes", train(texts, size), unseen(args.data))


if __name__ == "__main__":
    main()
