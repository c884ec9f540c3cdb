"""Wrote the banks in this folder: run with an earlier version of mbc, its format's number as the argument.

PYTHONPATH=OLD_CHECKOUT python tests/bank/formats/make.py 4
"""

import gzip
import hashlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank, StoredDocument, export
from mbc_engine.lm.coding import signature
from mbc_engine.text import Chunk, Document

NOTES = {
    "ada.txt": ["Ada Lovelace wrote the first program for the Analytical Engine.", "She corresponded with Babbage."],
    "bridge.md": [
        "The old bridge over the Aare was repaired by Marta Keller in 1998.",
        "It had been closed for years.",
    ],
    "removed.txt": ["This note was removed before the bank was upgraded."],
    "tea.txt": ["The tea house in Kyoto opens at seven.", "日本語の茶室", "Its owner grows the leaves. " * 12],
    "copy.txt": ["Ada Lovelace wrote the first program for the Analytical Engine.", "She corresponded with Babbage."],
    "rows.jsonl": ["The lighthouse keeper \ud800 counted 417 ships."],
}


def documents(model: Any) -> list[StoredDocument]:
    """The notes with their codes and texts; copy.txt has the content of ada.txt."""
    stored = []
    for name, texts in NOTES.items():
        content = "\n".join(texts).encode("utf-8", "surrogatepass")
        starts = [sum(len(text) + 1 for text in texts[:at]) for at in range(len(texts))]
        document = Document(
            f"/notes/{name}",
            "7" if name.endswith("jsonl") else "",
            "",
            hashlib.sha256(content).hexdigest(),
            len(content),
            None if name == "tea.txt" else "2025-03-01",
        )
        chunks = [Chunk(text, start) for text, start in zip(texts, starts, strict=True)]
        codes = model.memorise([text.encode(errors="replace").decode() for text in texts])
        stored.append(StoredDocument.of(document, codes, chunks))
    return stored


def make(name: str, model: Any, *, keeps: bool, text_model: Any = None) -> None:
    """A bank and its export, with sources and text, or without either."""
    folder, shape, dim = Path(__file__).parent, model.code_shape, model.codebooks.shape[-1]
    with TemporaryDirectory() as place:
        path = Path(place, "bank.mbc")
        with MemoryBank.create(path, signature(model), shape, dim, keeps_origins=keeps, keeps_text=keeps) as bank:
            stored = documents(model)
            bank.put(stored)
            bank.remove([("/notes/removed.txt", "")], [] if keeps else [stored[2].digest])
            if text_model:
                for _ in bank.recode_texts(text_model.open, to_lm=True):
                    pass
            lines = b"".join(export(bank, text_model.open) if text_model else export(bank))
        folder.joinpath(f"{name}.mbc.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        folder.joinpath(f"{name.rpartition('-')[2]}.jsonl.gz").write_bytes(gzip.compress(lines, 9, mtime=0))


def main() -> None:
    version, model = sys.argv[1], load_model("mini")
    make(f"format{version}-full", model, keeps=True)
    make(f"format{version}-bare", model, keeps=False)
    if version != "3":
        from tests.text_models import StandIn

        make(
            f"format{version}-lm",
            model,
            keeps=True,
            text_model=StandIn(
                "".join(text for texts in NOTES.values() for text in texts).encode(errors="ignore").decode()
            ),
        )


if __name__ == "__main__":
    main()
