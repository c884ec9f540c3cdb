"""The sections of docs/performance.md on training and memorising."""

from collections.abc import Iterator

from keeping import Result
from wording import format_bytes, format_ratio, format_seconds, table


def render_training(found: dict[str, Result]) -> Iterator[str]:
    """A section on training."""
    yield (
        "Training on SQuAD, with the preset's settings and random weights. A pass is forward and backward over part of a "
        "batch; a step, once per batch, is clipping and Adam. *Naive* is our code with the redundant work of the released "
        "code: padding to 1,022 tokens for documents and 104 or 128 for questions; logits at every position; and three "
        "more passes of the base LM in each training pass, only for logging. The two alternate on the same model and have "
        "the same loss. Times are medians."
    )
    rows = []
    for result in found.values():
        for way, passed in result["passes"].items():
            ratio = format_ratio(result["rates"]["ours"] / result["rates"][way]) if way == "naive" else ""
            taken = format_seconds(passed["seconds"]), format_seconds(result["step"]["seconds"])
            rows.append([result["title"], result["precision"], way, *taken, f"{result['rates'][way]:.3g}", ratio])
    yield from table(["model", "precision", "code", "pass", "step", "examples/s", "speed-up of ours"], rows, words=3)
    for result in found.values():
        is_preset = result["accumulate"] == result["of_preset"]
        rather = (
            ""
            if is_preset
            else f" instead of the preset's {result['of_preset']}, so that the naive code fits in memory"
        )
        yield (
            f"{result['title']}, {result['precision']}: {result['batch']} examples per step, {result['accumulate']} passes{rather}; "
            f"{result['tokens']:.0f} tokens per document, {result['trainable']:,} trainable parameters, {result['rounds']} rounds."
        )
        for way, passed in result["passes"].items():
            if passed["bytes"]:
                most = max(passed["bytes"], result["step"]["bytes"])
                yield f"Peak GPU memory, {way}: {format_bytes(most)}."


def render_memorising(found: dict[str, Result]) -> Iterator[str]:
    """A section on memorising."""
    yield (
        "Encoding SQuAD's paragraphs into codes, without writing them to a bank. *Naive* pads each to 1,022 tokens. The two "
        "alternate and find the same codes. *Share of peak* is the time that the matrix products over the documents' tokens "
        "would take at the speed of the fastest large product in the same process, divided by the measured time."
    )
    rows = [
        [
            result["title"],
            result["precision"],
            *(f"{result['documents'] / result['seconds'][way]:,.1f}" for way in ("ours", "naive")),
            format_ratio(result["seconds"]["naive"] / result["seconds"]["ours"]),
            f"{result['peak'] / 1e9:,.0f} GFLOP/s",
            f"{result['share']:.0%}",
        ]
        for result in found.values()
    ]
    head = ["model", "precision", "documents/s", "naive", "speed-up", "peak", "share of peak"]
    yield from table(head, rows, words=2)
    for result in found.values():
        yield (
            f"{result['title']}, {result['precision']}: {result['documents']} documents of {result['tokens']:.0f} tokens, "
            f"{result['rounds']} rounds; {result['differ']:.1%} of the codes differ."
        )
