"""An actor on Ray that reads files, cuts them into chunks and encodes these; it has the model, but not the bank."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mbc_engine.bank import ModelSignature
from mbc_engine.errors import MBCError, ModelMismatch
from mbc_engine.ingestion.reading import ChunkedDocument, Item, read_chunks
from mbc_engine.text import Document, printable_path
from mbc_engine.text.chunks import Chunker

if TYPE_CHECKING:
    from mbc_engine.load import Model

# Items of a batch that leave little to encode: files that are unchanged, by the thousand.
_MOST_ITEMS: Final = 1024

# Items, the seconds that encoding them took, and why there are no more.
Batch = tuple[list[Item], float, MBCError | None]


@dataclass(frozen=True)
class LookedUp:
    """What a bank knows of the documents of a file, for a process without the bank.

    Attributes:
        digests: as much as the bank keeps of the digest of each part.
        contents: the digests of all documents in a bank without sources, the first `digest_bytes` of each; else None.
    """

    digests: Mapping[str, str]
    contents: frozenset[bytes] | None
    digest_bytes: int

    def knows(self, document: Document) -> bool:
        if self.contents is not None:
            return bytes.fromhex(document.digest)[: self.digest_bytes] in self.contents
        known = self.digests.get(document.part)
        return known is not None and document.digest.startswith(known)

    def parts_of(self, source: str) -> set[str]:
        return {*self.digests}

    def has_content(self, digest: str) -> bool:
        return False  # which of all contents a bank has would be much to send; the bank stores each once


class EncodingActor:
    """Encodes files. What keeps it from that, such as another model, comes back in a batch.

    The model is loaded for the first chunks: where all files are unchanged, nobody waits for it.

    Args:
        model: its name or folder.
        expected: whose codes the bank holds.
        threads: of torch, on a CPU.
        chunks: a batch is full with so many; documents are not divided.
        shared: what cuts the texts, and `LookedUp.contents` and `digest_bytes`.
    """

    def __init__(
        self,
        model: str,
        expected: ModelSignature,
        device: str,
        threads: int,
        chunks: int,
        text_column: str | None,
        shared: tuple[Chunker, frozenset[bytes] | None, int],
    ) -> None:
        self._name, self._expected, self._device, self._threads = model, expected, device, threads
        self._chunks, self._text_column = chunks, text_column
        self._chunker, self._contents, self._digest_bytes = shared
        self._model: Model | None = None

    def encode(self, files: Sequence[Path], known: Mapping[str, Mapping[str, str]]) -> Iterator[Batch]:
        """The documents of files in batches, an error last.

        Args:
            files: absolute paths.
            known: the digests of what the bank has of them, by source and part.
        """
        try:
            batch, waiting = list[Item](), 0
            for path in files:
                own = LookedUp(known.get(printable_path(path.resolve()), {}), self._contents, self._digest_bytes)
                for item in read_chunks(path, own, self._chunker, self._text_column):
                    batch.append(item)
                    waiting += len(item.chunks) if isinstance(item, ChunkedDocument) else 0
                    if waiting >= self._chunks or len(batch) >= _MOST_ITEMS:
                        yield self._encoded(batch)
                        batch, waiting = [], 0
            yield self._encoded(batch)
        except MBCError as error:
            yield [], 0.0, error
        except Exception as error:  # noqa: BLE001 - Ray would raise it as its own, with a traceback
            yield [], 0.0, MBCError(f"{type(error).__name__}: {error}")

    def _encoded(self, items: list[Item]) -> Batch:
        waiting = [item for item in items if isinstance(item, ChunkedDocument) and item.chunks]
        if not waiting:
            return items, 0.0, None
        if self._model is None:
            self._model = self._loaded()
        began = time.monotonic()
        codes = self._model.memorise([chunk.text for item in waiting for chunk in item.chunks])
        own = iter(np.split(codes, np.cumsum([len(item.chunks) for item in waiting])[:-1]))
        encoded = [
            replace(item, codes=next(own)) if isinstance(item, ChunkedDocument) and item.chunks else item
            for item in items
        ]
        return encoded, time.monotonic() - began, None

    def _loaded(self) -> "Model":
        """Raises ModelMismatch if the model of this name is another one on this machine."""
        import torch

        from mbc_engine.lm.coding import signature
        from mbc_engine.load import load_model

        torch.set_num_threads(self._threads)
        model = load_model(self._name, device=self._device)
        own = signature(model)
        if own != self._expected:
            raise ModelMismatch(
                f"For a process on Ray, the model {self._name} is another one ({own.fingerprint}) than here "
                f"({self._expected.fingerprint}).",
                hint="Bring the same model to every machine, or name a folder on a disk that all of them share.",
            )
        return model
