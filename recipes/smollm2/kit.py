"""MBC, MAC, their null and reading the text itself, several seeds at once on one GPU, in a given time.

    python recipes/smollm2/kit.py --data ../shared/data --out build/kit --find-routes
    python recipes/smollm2/kit.py --data ../shared/data --out build/kit --minutes 9
    python recipes/smollm2/kit.py --out build/kit --report
    python recipes/smollm2/kit.py --data ../shared/data --out build/kit --device cpu --share 0.01 --only mbc-0  # a try

All are trained and asked about the same articles. `null-0` is MBC trained on questions about other documents than those
it is given: whatever it answers, it did not read. `text-0` reads the paragraph itself through the same KV-LoRA, the
base LM frozen. `distil24-0` asks why a memory of one document fails: T = 24 vectors, never quantised, of the base LM's
own states, which must give the predictions that the paragraph itself gives (context distillation). Each runs in a process of its own, trains until the deadline is near, and writes its answers, with the
right and with other documents, to `out/NAME.jsonl` and its losses to `out/NAME.events.jsonl`. Run again with the same
folder, a training goes on from its last snapshot. The first command, which needs no GPU, writes `out/routes.json`, the
paragraphs that `mini` finds for `text`. The answers of the run in docs/results.md are in `kit.tar.xz`.
"""

import argparse
import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from mbc_engine import load_examples, load_preset
from mbc_engine.config import Config
from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.datasets.questions import permuted
from mbc_engine.evaluation import language_models
from mbc_engine.evaluation.cells import variant
from mbc_engine.evaluation.fine_tuning import train_on_questions
from mbc_engine.evaluation.statistics import Difference, adjusted, compare_pairs, interval
from mbc_engine.evaluation.suite import Tuning
from mbc_engine.events import TrainStarted, TrainStep, TuningStep, Validated
from mbc_engine.lm.base import BaseLM, load_base
from mbc_engine.metrics import compare
from mbc_engine.model import load_model
from mbc_engine.paper.kv_lora import adapter_state, save_adapter
from mbc_engine.paper.model import MBC
from mbc_engine.paper.scoring import memorise_documents
from mbc_engine.training.trainer import train

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

# Every eighth article is not learned from, but asked about, as are those of squad_val.
HELD_OUT: Final = 8
ASKED: Final = 2439  # questions about the articles held out, as many as squad_val has
CHANGES: Final = (
    "training.warmup=0.03",
    "training.decay=0.5",
    "training.quantise_from=0.25",
    "training.refit_codes=true",
    "training.validation_steps=343",
    "training.validation_questions=200",
)
DISTILLED: Final = (
    "model.documents.name=HuggingFaceTB/SmolLM2-135M-Instruct",
    "model.quantised=false",
    "model.routing=false",
    "model.read=flat",
    "training.pca_start=false",
    "training.quantise_from=0",
    "training.losses.routing=0",
    "training.losses.distillation=1",
)
TRAININGS: Final = (
    *("text-0", "mbc-0", "null-0", "mac-0", "mbc-1", "null-1", "mac-1", "mbc-2", "null-2", "mac-2"),
    *("distil12-0", "distil24-0", "distil64-0", "distil128-0"),
)
ANSWER_TOKENS: Final = 16
BATCH: Final = 256  # questions answered at once
LORA_RATE: Final = 5e-4
FOUND: Final = 2  # paragraphs that are read at most


def questions(data: Path, share: float) -> tuple[list[QAExample], list[QAExample], dict[str, list[QAExample]]]:
    """Questions to train on, to validate on, and the test sets by name."""
    realigned, part, val = (
        load_examples(str(data / f"qa/{name}.jsonl.xz"))
        for name in ("squad_realigned", "squad_train_part", "squad_val")
    )
    articles = sorted({example.title for example in realigned})
    held_out = {*articles[::HELD_OUT]}
    validated = {*articles[1 :: 8 * HELD_OUT]}
    seen = [example for example in [*part, *realigned] if example.title not in held_out]
    train_on = [example for example in seen if example.title not in validated]
    validation = [example for example in seen if example.title in validated]
    asked = [example for example in realigned if example.title in held_out]
    tests = {"val": val, "held-out": evenly_spaced(asked, ASKED)}
    if share < 1:
        train_on, validation = train_on[: round(len(train_on) * share)], validation[:16]
        tests = {name: some[: max(16, round(len(some) * share))] for name, some in tests.items()}
    return train_on, validation, tests


def documents_of(examples: Sequence[QAExample]) -> list[str]:
    return list(dict.fromkeys(example.text for example in examples))


def config_of(name: str, seed: int, args: argparse.Namespace) -> Config:
    changes = [*CHANGES, f"training.epochs={args.epochs}", f"training.seed={seed}"]
    if args.device == "cpu":  # which may have no fast bf16
        changes += ["training.precision=float32", "training.batch_size=4", "model.codebook.codes=8"]
    else:
        changes += ["training.precision=bf16", "model.base_weights=bf16"]
    if name.startswith("distil"):
        changes += [*DISTILLED, f"model.tokens={name.removeprefix('distil')}"]
    return variant(load_preset("smollm2-135m", changes), "mac" if name == "mac" else "mbc")


class Answers:
    """Writes answers as they come, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def add(self, condition: str, examples: Sequence[QAExample], answers: Sequence[str]) -> None:
        f1 = exact = 0.0
        for example, answer in zip(examples, answers, strict=True):
            match = compare(answer, example.answers)
            f1, exact = f1 + match.f1, exact + match.exact_match
            row = {"condition": condition, "id": example.id, "article": example.title, "answer": answer}
            row |= {"f1": round(match.f1, 4), "exact_match": match.exact_match}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()
        count = max(1, len(examples))
        print(f"   {condition}: EM {100 * exact / count:.1f}, F1 {100 * f1 / count:.1f}", flush=True)


def batches(count: int) -> Iterator[slice]:
    for start in range(0, count, BATCH):
        yield slice(start, start + BATCH)


@torch.no_grad()
def ask_own(model: MBC, examples: Sequence[QAExample], texts: Sequence[str]) -> list[str]:
    """Answers of a model that has memorised nothing but one document for each question: a memory of one."""
    unique = list(dict.fromkeys(texts))
    first = [model.chunker(text)[0] for text in unique]
    if model.is_quantising:
        codes = torch.from_numpy(model.memorise(first).astype("int64")).to(model.base.model.device)
        vectors = model.require_codebook().lookup(codes)
    else:
        vectors = model.amortise(first)
    number = {text: index for index, text in enumerate(unique)}
    answers: list[str] = []
    for part in batches(len(examples)):
        asked = [example.question for example in examples[part]]
        memory = vectors[[number[text] for text in texts[part]]]
        modulation = model.aggregator(model.questions(asked), memory).modulation
        answers += model.base.generate(model.prefix(modulation), asked, max_new_tokens=ANSWER_TOKENS)
    return answers


def ask_together(model: MBC, examples: Sequence[QAExample], texts: Sequence[str]) -> list[str]:
    """Answers from one memory of all texts."""
    memory, _ = memorise_documents(model, texts)
    reader, answers = model.reader(), list[str]()
    for part in batches(len(examples)):
        asked = [example.question for example in examples[part]]
        answers += [answer for answer, _ in model.answer_from(asked, memory, reader=reader)]
    return answers


def train_and_ask(name: str, seed: int, args: argparse.Namespace, deadline: float) -> None:
    """Train MBC, MAC or the null, and ask about every test set."""
    train_on, validation, tests = questions(args.data, args.share)
    given = (permuted(train_on), permuted(validation)) if name == "null" else (train_on, validation)
    run, stop = args.out / "runs" / f"{name}-{seed}", threading.Event()
    resume, config = (run / "events.jsonl").exists(), config_of(name, seed, args)
    began = time.monotonic()
    for event in train(config, *given, run, cache=args.out / "cache", resume=resume, device=args.device, stop=stop):
        is_step = isinstance(event, TrainStep)
        if isinstance(event, TrainStarted | Validated) or (
            is_step and (event.step % 200 == 0 or event.step in (20, 60))
        ):
            print(f"{name}-{seed} {time.monotonic() - began:.0f} s: {event}", flush=True)
        if time.monotonic() > deadline:
            stop.set()
    (args.out / f"{name}-{seed}.events.jsonl").write_bytes((run / "events.jsonl").read_bytes())
    if not (run / "model").exists():
        print(f"{name}-{seed}: stopped before its first validation; run again to go on", flush=True)
        return
    model = load_model(run / "model", device=args.device)
    model.eval()
    answers = Answers(args.out / f"{name}-{seed}.jsonl")
    others = documents_of(train_on)
    for test, examples in tests.items():
        texts = documents_of(examples)
        wrong = dict(zip(texts, cycle(evenly_spaced(others, len(texts))), strict=False))
        answers.add(f"{test}, one, right", examples, ask_own(model, examples, [each.text for each in examples]))
        answers.add(f"{test}, one, other", examples, ask_own(model, examples, [wrong[each.text] for each in examples]))
        if name.startswith("distil"):
            continue
        answers.add(f"{test}, all, right", examples, ask_together(model, examples, texts))
        answers.add(f"{test}, all, other", examples, ask_together(model, examples, list(wrong.values())))


def read_text(base: BaseLM, examples: Sequence[QAExample], passages: Sequence[str]) -> list[str]:
    asked = [each.question for each in examples]
    return language_models.answers(base, asked, passages, size=BATCH, longest=math.inf)


def train_to_read(seed: int, args: argparse.Namespace, deadline: float) -> None:
    """Train the KV-LoRA of a frozen base LM to answer from the paragraph's own keys and values."""
    config = config_of("mbc", seed, args)
    base = load_base(config.model.base, weights=config.model.base_weights, device=args.device)
    train_on, _, tests = questions(args.data, args.share)
    began, log, stop, folder = time.monotonic(), list[dict[str, float]](), threading.Event(), args.out / f"text-{seed}"
    tuning = Tuning(
        epochs=args.epochs,
        batch_size=config.training.batch_size,
        learning_rate=LORA_RATE,
        precision=config.training.precision,
    )
    options: dict[str, Any] = {"reads": True, "lora": config.model.lora, "seed": seed, "stop": stop}
    for event in train_on_questions(base, train_on, [], folder, tuning, **options):
        if isinstance(event, TuningStep) and event.step % 20 == 0:
            log.append({"step": event.step, "of": event.total_steps, "loss": round(event.loss, 4)})
            if event.step % 200 == 0 or event.step in (20, 60):
                print(f"text-{seed} {time.monotonic() - began:.0f} s: {log[-1]}", flush=True)
        if time.monotonic() > deadline:
            stop.set()
    with (args.out / f"text-{seed}.events.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in log)
    save_adapter(base.model, adapter_state(base.model), folder)
    base.eval()
    written = Answers(args.out / f"text-{seed}.jsonl")
    found = json.loads(args.routes.read_text()) if args.routes.exists() else {}
    others = documents_of(train_on)
    for test, examples in tests.items():
        texts = documents_of(examples)
        wrong = dict(zip(texts, cycle(evenly_spaced(others, len(texts))), strict=False))
        for banks, routes in found.get(test, {}).items():
            for most in range(1, FOUND + 1):
                given = [[routes["texts"][number] for number in best[:most]] for best in routes["best"]]
                title = f"{test}, {banks}, {most} read"
                written.add(title, examples, read_text(base, examples, list(map("\n".join, given))))
        written.add(f"{test}, one, right", examples, read_text(base, examples, [each.text for each in examples]))
        written.add(f"{test}, one, other", examples, read_text(base, examples, [wrong[each.text] for each in examples]))
        written.add(f"{test}, none", examples, read_text(base, examples, [""] * len(examples)))


def find_routes(args: argparse.Namespace) -> None:
    """The paragraphs that `mini` finds for each question, among the test set's own and among all with the training's."""
    import tempfile

    from mbc_engine.memory import Memory

    train_on, _, tests = questions(args.data, args.share)
    every = documents_of([*train_on, *tests["val"], *tests["held-out"]])
    routes: dict[str, Any] = {}
    banks = {("val", "all"): documents_of(tests["val"]), ("held-out", "all"): documents_of(tests["held-out"])}
    banks["", f"all {len(every):,}"] = every
    for (only, title), texts in banks.items():
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "documents.jsonl")
            rows.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
            with Memory(Path(folder, "bank.mbc")) as memory:
                for _ in memory.add([rows]):
                    pass
                for test, examples in tests.items():
                    if only in ("", test):
                        found = _found(memory, examples)
                        right = [texts[numbers[0]] == each.text for each, numbers in zip(examples, found, strict=True)]
                        print(
                            f"{test} among {len(texts):,}: {100 * sum(right) / len(right):.1f}% right first", flush=True
                        )
                        kept = {number: index for index, number in enumerate(sorted(set(chain(*found))))}
                        best = [[kept[number] for number in numbers] for numbers in found]
                        routes.setdefault(test, {})[title] = {"texts": [texts[number] for number in kept], "best": best}
                        args.routes.write_text(json.dumps(routes))


def _found(memory: "Memory", examples: Sequence[QAExample]) -> list[list[int]]:
    """The numbers of the first documents found for each question."""
    found: list[list[int]] = []
    for start in range(0, len(examples), BATCH):
        asked = [each.question for each in examples[start : start + BATCH]]
        for hits in memory.search(asked, top=2 * FOUND, with_text=False):
            numbers = [int(hit.part.partition(",")[0]) for hit in hits]
            found.append(list(dict.fromkeys(numbers))[:FOUND])
    return found


def report(out: Path) -> Iterator[str]:
    """A Markdown table of all answers: F1 with a 95% interval, resampled by article, and its difference from controls,
    with its p-value, adjusted for the number of such tests."""
    scores: dict[tuple[str, str], dict[str, tuple[float, float, str]]] = {}
    for path in sorted(out.glob("*-?.jsonl")):
        for row in map(json.loads, path.open()):
            values = 100 * row["f1"], 100 * row["exact_match"], row["article"]
            scores.setdefault((path.stem, row["condition"]), {})[row["id"]] = values
    tests: dict[tuple[str, str, str], Difference] = {}
    for (name, condition), answers in scores.items():
        controls = (name, condition.replace("right", "other")), (name.replace("mbc", "null"), condition)
        for control, key in zip(controls, ("other", "null"), strict=True):
            if control in scores and control != (name, condition):
                f1s = [value[0] for value in answers.values()], [scores[control][one][0] for one in answers]
                (tests[name, condition, key],) = compare_pairs([f1s], [article for *_, article in answers.values()])
    p_values = dict(zip(tests, adjusted(test.p for test in tests.values()), strict=True))

    def shown(*key: str) -> str:
        if key not in tests:
            return ""
        gap = tests[key].difference  # type: ignore[index]
        return f"{gap.value:.1f} ({gap.low:.1f} to {gap.high:.1f}), p = {p_values[key]:.3f}"  # type: ignore[index]

    yield "| model | asked about | EM | F1 | more than with other documents | more than the null |"
    yield "|---|---|---:|---:|---:|---:|"
    for (name, condition), answers in scores.items():
        if not condition.endswith("other"):
            f1s, exact, articles = zip(*answers.values(), strict=True)
            f1 = interval(f1s, articles)
            figures = f"{sum(exact) / len(exact):.1f} | {f1.value:.1f} ({f1.low:.1f} to {f1.high:.1f})"
            differences = " | ".join(shown(name, condition, key) for key in ("other", "null"))
            yield f"| {name} | {condition} | {figures} | {differences} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that holds `qa`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything, the answers included")
    parser.add_argument("--asking", type=float, default=1.5, help="minutes of these for the answers")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0, help="of the questions, to try it out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="+", default=TRAININGS)
    parser.add_argument("--find-routes", action="store_true", help="write what `mini` finds and end")
    parser.add_argument("--report", action="store_true", help="print a table of the answers and end")
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.routes = args.out / "routes.json"
    if args.report:
        print(*report(args.out), sep="\n")
    elif args.find_routes:
        find_routes(args)
    elif args.deadline is not None or len(args.only) == 1:
        deadline = args.deadline or time.monotonic() + 60 * (args.minutes - args.asking)
        name, seed = args.only[0].rsplit("-", 1)
        torch.set_num_threads(1 if args.device != "cpu" else torch.get_num_threads())
        if name == "text":
            train_to_read(int(seed), args, deadline)
        else:
            train_and_ask(name, int(seed), args, deadline)
    else:
        deadline = time.monotonic() + 60 * (args.minutes - args.asking)
        same = [option for option in sys.argv[1:] if option not in (*args.only, "--only")]
        workers = [
            subprocess.Popen([sys.executable, __file__, *same, "--deadline", str(deadline), "--only", name])
            for name in args.only
        ]
        sys.exit(max(abs(worker.wait()) for worker in workers))


if __name__ == "__main__":
    main()
