"""Text compressed with the language model: bytes, and the time to encode and decode it, for docs/mini.md.

    python benchmarks/text_codec.py --data ../shared/data              # measure, then write; about ten minutes
    python benchmarks/text_codec.py --data ../shared/data --written    # write from saved figures

The 402 paragraphs of `squad_val` are ingested from files with zstd, recoded, and asked about: with their files, and
without them, in both cases with nothing decoded before each question. The exact LM is compared with the naive one,
transformers' in single precision, whose results differ between machines, token by token. Needs an otherwise idle machine.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch
from pareto import END, PAGE
from wording import load_or_measure, write_section

from mbc_engine import Memory, MemoryBank, RetrieverReader, ingest, load_examples, load_model, open_bank
from mbc_engine.lm.base import load_base
from mbc_engine.lm.packaged import LANGUAGE_MODEL
from mbc_engine.lm.text_model import open_text_model
from mbc_engine.machine import processor
from mbc_engine.sources import text_model

Figures = dict[str, Any]

BEGIN: Final = "<!-- written by python benchmarks/text_codec.py -->"
STEPS: Final = 40  # tokens that the naive LM decodes


def measure(data: Path, paragraphs: int, asked: int, compared: int) -> Figures:
    """Sizes and times, for `render_section`."""
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    examples = load_examples(str(data / "qa" / "squad_val.jsonl.xz"))
    texts = list(dict.fromkeys(one.text for one in examples))[-paragraphs:]
    questions = random.Random(0).sample([one.question for one in examples if one.text in set(texts)], compared)
    found: Figures = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "processor": processor(), "paragraphs": len(texts)}
    found["threads"] = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place, "texts", f"{number:04d}.txt") for number in range(len(texts))]
        files[0].parent.mkdir()
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        with open_bank(model, Path(place, "bank.mbc")) as bank:
            found["ingest"] = seconds(lambda: list(ingest(model, bank, [files[0].parent])))
            found["zstd"] = bytes_of(bank)
            open_text_model()
            found["recoding"] = seconds(lambda: list(bank.recode_texts(text_model, to_lm=True)))
            bank.compact()
            found["lm"] = bytes_of(bank)
            found["chunks"] = bank.totals().chunks
            memory = Memory(bank, model)
            memory.ask(questions[:1])
            with_files = [memory.ask([question], min_confidence=0)[0] for question in questions]
            found["with files"] = time_each_cold(memory, questions[:asked])
            for file in files:
                file.unlink()
            found["without files"] = time_each_cold(memory, questions[:asked])
            without = [memory.ask([question], min_confidence=0)[0] for question in questions]
            pairs = zip(with_files, without, strict=True)
            found["same"] = sum((one.text, one.confidence) == (other.text, other.confidence) for one, other in pairs)
            found["compared"] = len(questions)
    return found | naive(texts[0])


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bytes_of(bank: MemoryBank) -> Figures:
    """Bytes per chunk of each part of the bank."""
    bank.checkpoint()
    sizes, chunks = bank.sizes(), bank.totals().chunks
    return {
        "address": sizes.codes / chunks,
        "words": sizes.words / chunks,
        "text": sizes.texts / chunks,
        "index": (sizes.file - sizes.codes - sizes.words - sizes.texts) / chunks,
        "file": sizes.file / chunks,
    }


def time_each_cold(memory: Memory, questions: Sequence[str]) -> list[float]:
    """Seconds per question, each with no text decoded before."""
    took = []
    for question in questions:
        open_text_model()._latest.clear()  # noqa: SLF001 - the only way to clear the cache
        took.append(seconds(lambda question=question: memory.ask([question])))
    return took


def naive(text: str) -> Figures:
    """Seconds per token, for the LM in single precision and for ours."""
    base = load_base(LANGUAGE_MODEL)
    codec = open_text_model()
    ids = base.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    steps: list[float] = []
    with torch.inference_mode():
        cache = None
        for step in range(STEPS):
            began = time.perf_counter()
            output = base.model(ids[:, step : step + 1], past_key_values=cache, use_cache=True)
            output.logits.softmax(-1).cumsum(-1)
            cache = output.past_key_values
            steps.append(time.perf_counter() - began)
    codec._latest.clear()  # noqa: SLF001
    payload, tokens = codec.encode([text])[0], ids.shape[1]
    assert payload is not None
    return {"naive step": statistics.median(steps), "exact step": seconds(lambda: codec.decode([payload])) / tokens}


def render_section(found: Figures) -> Iterator[str]:
    """The section of the page."""
    scale = found["chunks"] / found["paragraphs"]
    yield (
        f"{found['paragraphs']} paragraphs of `squad_val`, one per file, in {found['chunks']} chunks. A paragraph's text "
        f"takes {scale * found['lm']['text']:.1f} bytes with the language model, {scale * found['zstd']['text']:.1f} with "
        f"zstd; a chunk takes {found['lm']['file']:.1f} and {found['zstd']['file']:.1f} bytes of the file, half-empty pages "
        "included, of which larger banks have few."
    )
    with_files, without_files = statistics.median(found["with files"]), statistics.median(found["without files"])
    yield ""
    yield (
        f"Recoding takes {found['recoding'] / found['chunks']:.2f} s a chunk and decoding {1000 * found['exact step']:.1f} ms a "
        f"token (transformers in float32: {1000 * found['naive step']:.1f} ms). A question takes {with_files:.2f} s while its "
        f"files are there, and {without_files:.2f} s (the slowest {max(found['without files']):.2f} s) when they are deleted "
        f"and no text has been decoded before. {found['same']} of {found['compared']} answers and confidences are then the "
        f"same. `python benchmarks/text_codec.py --data ../shared/data`, {found['date']}, {found['processor']}, at most "
        f"{found['threads']} threads, seed 0; {len(found['with files'])} questions timed."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the development data")
    parser.add_argument(
        "--out", type=Path, default=Path("build/text_codec.json"), help="measured figures (%(default)s)"
    )
    parser.add_argument("--written", action="store_true", help="measure nothing; write from the figures in --out")
    parser.add_argument("--paragraphs", type=int, default=402)
    parser.add_argument("--questions", type=int, default=40, help="questions to time")
    parser.add_argument("--compared", type=int, default=100, help="questions whose answers to compare")
    args = parser.parse_args()
    found = load_or_measure(
        args.out, None if args.written else lambda: measure(args.data, args.paragraphs, args.questions, args.compared)
    )
    write_section(PAGE, BEGIN, END, render_section(found))
    print(*render_section(found), sep="\n")


if __name__ == "__main__":
    main()
