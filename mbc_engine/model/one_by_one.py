"""Work on a CPU text by text, on as many at once as torch has threads.

What shares a batch changes each other's last bits, by padding and by the size of products. Alone, a text's result is a
function of the text, and of nothing that threads share: each is computed by one. Two threads with a paragraph each get
through more of them than two that share a batch (22 and 17 a second with mini's encoder).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed


def one_by_one(work: Callable[[Sequence[str]], Tensor], texts: Sequence[str]) -> Generator[Tensor, None, None]:
    """What `work`, without gradients, makes of each text alone, in their order. Closed, it leaves the rest undone.

    Processes that hold parameters in parts have to ask for them in one order: there it is one text after the other.
    """
    is_cast, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def alone(text: str) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=kind, enabled=is_cast):  # a thread begins with neither
            return work([text])

    is_shared = distributed.is_available() and distributed.is_initialized()
    with _single_threaded() as threads:
        # The first finds tokenizers and caches unprepared, which are not to be prepared twice at once.
        yield from map(alone, texts[:1])
        if threads == 1 or is_shared:
            yield from map(alone, texts[1:])
            return
        # A thread begins with what was set last anywhere, which may be another's that encodes at the same time.
        pool = ThreadPoolExecutor(threads, "text", initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield from pool.map(alone, texts[1:])
        finally:
            pool.shutdown(cancel_futures=True)


def codes_stepwise(
    encode: Callable[[Sequence[str]], Tensor], texts: Sequence[str], batches: Iterator[list[int]] | None
) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
    """Codes of texts for callers that follow it or may stop it: close the iterator to leave the rest undone.

    Args:
        encode: codes of a batch of texts, [B, ...], without gradients.
        texts: any number.
        batches: places of texts that are encoded together, as on a GPU; None for one by one, in order.

    Yields:
        The places of a few texts, and their codes [n, ...].
    """
    if batches is None:
        with closing(one_by_one(encode, texts)) as encoded:
            for place, own in enumerate(encoded):
                yield [place], own.numpy().astype(np.uint16)
        return
    for chosen in batches:
        with torch.no_grad():
            codes = encode([texts[index] for index in chosen])
        yield chosen, codes.cpu().numpy().astype(np.uint16)


@contextmanager
def _single_threaded() -> Iterator[int]:
    """Inside, torch computes with one thread for each of ours; gives how many it had."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
