"""The sections of docs/performance.md on training and memorising."""

from collections.abc import Iterator
from typing import Final

from keeping import Result
from wording import format_bytes, format_ratio, format_seconds, table

GOAL_TRAINING: Final = 8.0
GOAL_MEMORISING: Final = 5.0
GOAL_SHARE: Final = 0.5


def render_training(found: dict[str, Result]) -> Iterator[str]:
    """A section on training."""
    yield (
        "Training on SQuAD's questions and paragraphs, with the preset's settings, real tokenizers and random weights. A "
        "pass is forward and backward over part of a batch; a step, once per batch, is clipping and Adam. *Naive* is our "
        "code with the redundant work of the released code: documents padded to 1,022 tokens for the amortizer, questions "
        "to 104, and questions with answers to 128 for the base LM; logits at every position; and three more passes of "
        "the base LM in each training pass, two of them over the padded documents, only for logging. The two alternate "
        "on the same model and have the same loss. Times are medians; examples per second are for the preset's batch "
        "size."
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
        if "naive" in result["rates"]:
            ratio = result["rates"]["ours"] / result["rates"]["naive"]
            yield (
                f"Ours is {format_ratio(ratio)} times as fast"
                f"{_against_goal(ratio, GOAL_TRAINING, format_ratio(GOAL_TRAINING))}."
            )


def render_memorising(found: dict[str, Result]) -> Iterator[str]:
    """A section on memorising."""
    yield (
        "Encoding SQuAD's paragraphs into codes: tokenising, the T5 encoder, the decoder with its queries, the heads and "
        "the search for the nearest codes, but not writing them to a bank. *Naive* takes 16 documents at a time in their "
        "original order, each padded to 1,022 tokens. The two alternate and find the same codes. *Share of peak* is the "
        "time that the matrix products over the documents' tokens, without padding, would take at the speed of the "
        "fastest large product in the same process, divided by the measured time."
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
        ratio = result["seconds"]["naive"] / result["seconds"]["ours"]
        yield (
            f"{result['title']}, {result['precision']}: {result['documents']} documents of {result['tokens']:.0f} tokens, "
            f"{result['rounds']} rounds; {result['differ']:.1%} of the codes differ. Ours is {format_ratio(ratio)} times as fast"
            f"{_against_goal(ratio, GOAL_MEMORISING, format_ratio(GOAL_MEMORISING))}, at {result['share']:.0%} of peak"
            f"{_against_goal(result['share'], GOAL_SHARE, f'{GOAL_SHARE:.0%}')}."
        )


def _against_goal(value: float, least: float, words: str) -> str:
    return f" (goal: {words})" if value >= least else f" (**below** the goal of {words})"
