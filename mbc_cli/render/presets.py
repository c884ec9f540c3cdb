"""The built-in presets on the terminal."""

from mbc_cli.render.consoles import print_json, print_table
from mbc_engine.bank import CodeShape
from mbc_engine.config import ModelSettings, load_preset, preset_names


def show_presets(*, as_json: bool) -> None:
    """A line a preset; as JSON with every setting."""
    presets = {name: load_preset(name) for name in preset_names()}
    if as_json:
        print_json({name: config.model_dump() for name, config in presets.items()})
        return
    print_table(
        ("preset", "base LM", "documents", "T", "codes", "bytes a chunk"),
        [
            (name, model.base, model.documents.name, model.tokens, _codes(model), f"{_bits(model) / 8:.4g}")
            for name, model in ((name, config.model) for name, config in presets.items())
        ],
        right=("T", "bytes a chunk"),
    )


def _codes(model: ModelSettings) -> str:
    book = model.codebook
    levels = f" x {book.levels}" if book.levels > 1 else ""
    return f"{book.codes}{levels}" + (" per position" if book.per_position else "")


def _bits(model: ModelSettings) -> int:
    book = model.codebook
    return CodeShape(model.tokens, book.levels, book.codes, book.per_position).bits_per_chunk
