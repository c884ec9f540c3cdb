"""A process that holds the model and turns chunks into codes."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mbc_engine.bank import ModelSignature
from mbc_engine.errors import ModelMismatch
from mbc_engine.serving.distributed.stretches import Stretch, Table, packed, told, unpacked
from mbc_engine.serving.reading import Chunked, Encoded, Item

if TYPE_CHECKING:
    from mbc_engine.load import Model


class ChunkEncoder:
    """An actor that makes the codes of stretches. What keeps it from that, such as another model, comes back in one.

    The model is loaded for the first chunks: where all files are unchanged, nobody waits for it.

    Args:
        model: its name or folder.
        expected: whose codes the bank holds.
        device: where it runs.
        threads: of torch, on a CPU.
    """

    def __init__(self, model: str, expected: ModelSignature, device: str, threads: int) -> None:
        self._name, self._expected, self._device, self._threads = model, expected, device, threads
        self._model: Model | None = None

    def __call__(self, table: Table) -> dict[str, list[bytes]]:
        """A table of one `Stretch` to a row of the same, encoded."""
        (stretch,) = unpacked(table)
        try:
            return packed(self._encoded(stretch))
        except Exception as error:  # noqa: BLE001 - Ray would tell it as its own, with a traceback
            return packed(replace(stretch, items=(), error=told(error)))

    def _encoded(self, stretch: Stretch) -> Stretch:
        waiting = [item for item in stretch.items if isinstance(item, Chunked)]
        if not waiting:
            return stretch
        if self._model is None:
            self._model = self._loaded()
        began = time.monotonic()
        codes = self._model.memorise([chunk.text for item in waiting for chunk in item.chunks])
        ends = np.cumsum([len(item.chunks) for item in waiting])
        own = iter(np.split(codes, ends[:-1]))

        def encoded(item: Item | Encoded) -> Item | Encoded:
            return Encoded(item.record, item.chunks, next(own), item.size) if isinstance(item, Chunked) else item

        return replace(stretch, items=tuple(map(encoded, stretch.items)), encoding=time.monotonic() - began)

    def _loaded(self) -> "Model":
        """Raises ModelMismatch if the model of this name is another one on this machine."""
        import torch

        from mbc_engine.load import load_model
        from mbc_engine.model.bank_binding import signature

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
