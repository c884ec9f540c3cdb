"""Documents memorised per second, and as a share of the machine's peak matrix throughput.

    python benchmarks/performance.py --data ../shared/data --only memorising

Memorising is what `MBC.memorise` does: tokenising, the amortizer's encoder, its T queries through the decoder, heads,
and the nearest codes. Writing them to a bank is left out; it takes microseconds per document. The naive way is that of
`naive.py`. Both alternate over the same texts and must find the same codes. Peak throughput is measured after each run:
the fastest of many products of two square matrices, in the same precision with the same threads.

Only matrix products over the documents' own tokens count, each document by itself, by torch's own counter; padding and
other operations do not.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import naive
import numpy as np
import torch
from shapes import SHAPES, examples, random_model
from torch.utils.flop_counter import FlopCounterMode

from mbc_engine.paper.model import MBC

DOCUMENTS: Final = 96
ROUNDS: Final = 3
# Width of the matrices multiplied to find the peak, and how often.
_WIDTH: Final = {"cpu": 2048, "cuda": 8192}
_PRODUCTS: Final = 10
# A document's FLOPs are a quadratic function of its tokens, so three lengths determine it.
_COUNTED: Final = (32, 64, 128)

Result = dict[str, Any]


def count_flops(model: MBC, counts: list[int]) -> float:
    """Floating-point operations of the matrix products needed to memorise documents with these token counts."""
    pretrained = model.documents.amortizer.pretrained
    usual = pretrained.config._attn_implementation  # noqa: SLF001  # it has no public name
    pretrained.set_attn_implementation("eager")  # its products are counted
    found = []
    for tokens in _COUNTED:
        ids = torch.ones(1, tokens, dtype=torch.int64, device=pretrained.device)
        with FlopCounterMode(display=False) as counter:
            model.codebook.encode(model.documents.amortizer(ids, ids))
        found.append(counter.get_total_flops())
    pretrained.set_attn_implementation(usual)
    return float(np.polyval(np.polyfit(_COUNTED, found, 2), counts).sum())


def measure_peak(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the fastest of several large matrix products."""
    one, other = (torch.randn(_WIDTH[device], _WIDTH[device], device=device, dtype=dtype) for _ in range(2))
    return 2 * _WIDTH[device] ** 3 / min(_seconds(lambda: one @ other, device) for _ in range(_PRODUCTS))


def measure(
    data: str,
    shape: str,
    device: str,
    precision: str,
    documents: int = DOCUMENTS,
    rounds: int = ROUNDS,
) -> Result:
    """Alternate both ways, with texts and tokenizers from a data folder (`shapes.py`); medians.

    Raises:
        ValueError: more than 1% of their float32 codes differ.
    """
    model_shape = SHAPES[shape]
    model = random_model(model_shape, device, Path(data))
    found = examples(Path(data), model_shape.config.model.documents.window, model.documents.tokenizer)
    chosen = [example.text for example in found[:: max(1, len(found) // documents)][:documents]]
    counts = [len(ids) for ids in model.documents.tokenizer(chosen)["input_ids"]]
    model.codebook.fit(model.documents(chosen[:64]))  # codes far apart from each other
    ways: dict[str, Callable[[], np.ndarray]] = {
        "ours": lambda: model.memorise(chosen),
        "naive": lambda: naive.memorise(model, chosen),
    }
    few = chosen[: naive.BATCH]
    differ = float((model.memorise(few) != naive.memorise(model, few)).mean())
    if differ > 0.01:
        raise ValueError(f"{differ:.1%} of the codes differ.")
    taken: dict[str, list[float]] = {way: [] for way in ways}
    peaks = []
    is_low = precision == "bf16"
    for _ in range(rounds):
        for way, memorise in ways.items():
            with torch.autocast(device, torch.bfloat16, enabled=is_low):
                taken[way].append(_seconds(memorise, device))
            peaks.append(measure_peak(device, torch.bfloat16 if is_low else torch.float32))
    seconds = {way: statistics.median(times) for way, times in taken.items()}
    operations, most = count_flops(model, counts), statistics.median(peaks)
    return {
        "title": model_shape.title,
        "device": device,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "documents": len(chosen),
        "tokens": statistics.mean(counts),
        "rounds": rounds,
        "differ": differ,
        "work": operations,
        "peak": most,
        "seconds": seconds,
        "share": operations / seconds["ours"] / most,
    }


def _seconds(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began
