"""The readers of `mini`: low-rank changes to a pretrained encoder and a head that finds answers in passages.

    python recipes/mini/reader.py --data ../shared/data --out build/mini/readers/large --reader large --threads 2
    python recipes/mini/reader.py --data ../shared/data --out build/mini/readers/small --reader small --threads 2 \\
        --learning-rate 1e-3 --share 0.78

Trains on short sentences first, then on paragraphs of other domains, last on encyclopedias; with `--start`, on the last
stage again, or on near misses and everyday questions (`near_misses.py`, `everyday.py`). A sixteenth of the articles is
held out for the scores it prints. After an interruption, a rerun resumes from the last checkpoint. Runs unchanged on
a GPU (`--device cuda`). Nothing of a validation or test set is read.
"""

import argparse
import math
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from confidence import area
from encoder import ENCODER
from everyday import pairs as every_pair
from low_rank import add_low_rank
from near_misses import contrast, names_after
from options import begin, mini_settings, stage_parser
from reader_data import (
    Example,
    Stage,
    Tokens,
    WrongPassages,
    batches,
    everyday_examples,
    examples,
    is_held_out,
    read_rows,
    shuffled,
)
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from mbc_engine import RetrieverReader, load_model
from mbc_engine.config import ReaderSettings
from mbc_engine.lm.encoders import Encoder, load_encoder
from mbc_engine.lm.pretrained import is_fast_in_bf16, write_tensors
from mbc_engine.metrics import compare
from mbc_engine.mini.model import reader_of
from mbc_engine.mini.span_reader import PAIR_RANK, SpanReader, load_span_reader

WEIGHTS = "reader.safetensors"
CURRICULUM = (
    Stage(("qamr_dev", "tweetqa", "qadiscourse"), 64, share=0.3),
    Stage(
        ("squadshifts_reddit", "squadshifts_amazon", "archivalqa_like", "bioasq_factoid", "friendsqa", "timeqa_human"),
        128,
        share=0.5,
    ),
    Stage(
        (
            "squad_train_part",
            "squad_realigned",
            "squad_cs224n_val",
            "squad2_train_10articles",
            "tydiqa_goldp_en",
            "afriqa_en",
        ),
        224,
    ),
)
# What a reader is trained on once more with `--near-misses`.
NEAR_MISSES = Stage((*CURRICULUM[-1].sets, "timeqa_human", "archivalqa_like"), 224)


JUDGED = 400  # held-out questions of a kind


class TrainedReader(nn.Module):
    """The scores of `mbc_engine.mini.span_reader` with gradients; its parameters have the names in a reader's file."""

    def __init__(self, encoder: Encoder, longest: int) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.longest = encoder.model, encoder.tokenizer, longest
        width = encoder.model.config.hidden_size
        sizes = {"edges": 2, "first": PAIR_RANK, "last": PAIR_RANK, "none": 1}
        self.head = nn.ModuleDict({name: nn.Linear(width, size) for name, size in sizes.items()})

    def forward(self, batch: Sequence[Example]) -> tuple[tuple[Tensor, Tensor], list[int], int]:
        """Scores of spans by first and last token, [B, S, S], and of "no answer", [B]; where each passage begins; and
        how many tokens were computed.
        """
        pad, device = self.tokenizer.pad_token_id, next(self.head.parameters()).device
        rows, type_starts, starts = map(list, zip(*(item.encoding for item in batch), strict=True))
        positions = torch.arange(max(map(len, rows)), device=device)
        ids = torch.tensor([row + [pad] * (len(positions) - len(row)) for row in rows], device=device)
        lengths, types, firsts = (
            torch.tensor(values, device=device)[:, None] for values in (list(map(len, rows)), type_starts, starts)
        )
        given = {"input_ids": ids, "attention_mask": (positions < lengths).long()}
        if getattr(self.encoder.config, "type_vocab_size", 1) > 1:
            given["token_type_ids"] = ((positions >= types) & (positions < lengths)).long()
        states = self.encoder(**given).last_hidden_state.float()
        first, last = self.head["edges"](states).unbind(-1)
        pairs = self.head["first"](states) @ self.head["last"](states).transpose(1, 2) / math.sqrt(PAIR_RANK)
        is_passage = (positions >= firsts) & (positions < lengths - 1)
        distances = positions - positions[:, None]
        is_possible = is_passage[:, None] & is_passage[:, :, None] & (distances >= 0) & (distances < self.longest)
        scores = (first.unsqueeze(2) + last.unsqueeze(1) + pairs).masked_fill(~is_possible, -torch.inf)
        return (scores, self.head["none"](states[:, 0]).squeeze(-1)), starts, ids.numel()


class Checkpoint:
    """Trained tensors, Adam's moments and the step in one safetensors file, replaced atomically.

    Args:
        path: the file.
        trained: the tensors that change, which loading writes to.
        optimizer: of these.
    """

    def __init__(self, path: Path, trained: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.path, self.trained, self.optimizer = path, trained, optimizer

    def save(self, step: int) -> None:
        """Save the state after this step."""
        tensors = {f"model.{name}": value for name, value in self.trained.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
        write_tensors(
            self.path, {name: value.detach().contiguous() for name, value in tensors.items()}, {"step": str(step)}
        )

    def load(self) -> int | None:
        """Restore the saved state and return the step to resume from, or None if there is none."""
        if not self.path.exists():
            return None
        state: dict[int, dict[str, Tensor]] = {}
        with safe_open(self.path, framework="pt") as file, torch.no_grad():
            step = int(file.metadata()["step"])
            for name in file.keys():  # noqa: SIM118  # not a dict
                if name.startswith("model."):
                    self.trained[name.removeprefix("model.")].copy_(file.get_tensor(name))
                else:
                    _, number, key = name.split(".")
                    state.setdefault(int(number), {})[key] = file.get_tensor(name)
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        return step


def span_loss(
    scores: tuple[Tensor, Tensor], golds: Sequence[Sequence[tuple[int, int]]], starts: Sequence[int]
) -> Tensor:
    """Mean negative log-likelihood of the right answer among all spans and "none", over all its occurrences."""
    spans, none = scores
    right = torch.zeros_like(spans, dtype=torch.bool)
    for row, (spans_of_row, start) in enumerate(zip(golds, starts, strict=True)):
        for first, last in spans_of_row:
            right[row, first + start, last + start] = True
    right &= spans.isfinite()
    is_none = ~right.flatten(1).any(1)
    every = torch.cat([spans.flatten(1), none[:, None]], 1)
    chosen = torch.cat([right.flatten(1), is_none[:, None]], 1)
    return (every.logsumexp(1) - every.masked_fill(~chosen, -torch.inf).logsumexp(1)).mean()


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then linear decay to zero."""
    return peak * min((step + 1) / warmup, (steps - step) / (steps - warmup))


class Judged(NamedTuple):
    """A question that is held out, with the passage that answers it, or seems to."""

    question: str
    text: str
    context: str
    answers: Sequence[str]


def figures(reader: SpanReader, several: Sequence[Judged]) -> str:
    """EM and F1 of those with an answer, and AUC: how often a right answer has a larger margin than another."""
    questions, texts, contexts, golds = zip(*several, strict=True)
    read = reader.spans(questions, [[text] for text in texts], [[context] for context in contexts])
    spans = [(span, answers) for (span,), answers in zip(read, golds, strict=True) if span]
    matches = [compare(span.text, answers) if answers else None for span, answers in spans]
    em, f1 = np.mean([(match.exact_match, match.f1) for match in matches if match], 0)
    is_right = np.array([match is not None and match.exact_match for match in matches])
    return f"EM {100 * em:.1f} F1 {100 * f1:.1f} AUC {area(np.array([span.margin for span, _ in spans]), is_right):.3f}"


def prepare(
    args: argparse.Namespace, tokenizer: PreTrainedTokenizerBase, longest_answer: int
) -> tuple[list[list[Example]], dict[str, list[Judged]]]:
    """The batches in training order, and held-out questions by kind."""
    started = time.monotonic()
    stages = [NEAR_MISSES] if args.near_misses else CURRICULUM[-1:] if args.start else CURRICULUM
    first = args.seed + len(CURRICULUM) - len(stages)
    every = [
        row for name in sorted({name for stage in stages for name in stage.sets}) for row in read_rows(args.data, name)
    ]
    held_out = [row for row in every if is_held_out(row)]
    asked = {row.question for row in held_out}  # some questions are in two sets
    rows = [row for row in every if row.question not in asked]
    if args.near_misses:
        rows = random.Random(first).sample(rows, round(args.share * len(rows)))
        names = names_after(row.question for row in rows)
        rows = [contrast(row, names, first) for row in rows]
    chosen = [row for row in held_out if row.source in CURRICULUM[-1].sets[:2] and row.answers]
    judged = {"SQuAD": [Judged(row.question, row.text, "", row.answers) for row in chosen]}
    everyday = list[Example]()
    if args.everyday:
        model = load_model("mini", reader=args.reader, device=args.device)
        assert isinstance(model, RetrieverReader)
        folder = args.out.parent / "everyday"
        pairs = every_pair(model, "training", folder, first)
        everyday = everyday_examples(pairs, model.reader, longest_answer=longest_answer) * args.everyday
        kept = [pair for pair in every_pair(model, "calibration", folder, 0) if pair.is_best]
        judged["everyday"] = [Judged(pair.question, pair.text, pair.context, pair.answers) for pair in kept]
    tokens = Tokens(tokenizer, rows)
    wrong = WrongPassages(load_encoder(ENCODER, device=args.device), tokens, rows, args.out / "vectors.safetensors")
    plan: list[list[Example]] = []
    for seed, stage in enumerate(stages, first):
        chosen = [row for name in stage.sets for row in rows if row.source == name]
        share = 1.0 if args.near_misses else args.share * stage.share
        items = examples(
            random.Random(seed).sample(chosen, round(share * len(chosen))),
            tokens,
            wrong,
            longest=stage.longest,
            longest_answer=longest_answer,
            share=args.none,
            seed=seed,
        )
        if args.everyday:
            items = shuffled([*items, *everyday], seed)
        cuts = list(batches(items, args.batch, seed))
        total = sum(item.length for item in items)
        none = sum(not item.golds for item in items) / max(1, len(items))
        print(
            f"{len(items):,} questions, {none:.0%} without an answer, {total:,} tokens, {len(cuts):,} batches",
            flush=True,
        )
        plan += cuts
    print(f"prepared in {time.monotonic() - started:.0f} s", flush=True)
    return plan, {name: random.Random(0).sample(some, min(len(some), JUDGED)) for name, some in judged.items()}


def learn(
    reader: TrainedReader,
    plan: Sequence[Sequence[Example]],
    held_out: Mapping[str, Sequence[Judged]],
    settings: ReaderSettings,
    args: argparse.Namespace,
) -> None:
    """Train from the last checkpoint on, saving along the way.

    A step takes as many batches as there are threads, one per thread: on a CPU this is faster than one batch at a time
    with all threads, and suffers less from other load on the machine. Their gradients are summed in order.
    """
    trained = trained_parameters(reader)
    optimizer = torch.optim.AdamW(trained.values(), betas=(0.9, 0.98), weight_decay=0.01)
    checkpoint = Checkpoint(args.out / "training.safetensors", trained, optimizer)
    steps = [plan[start : start + args.at_once] for start in range(0, len(plan), args.at_once)][: args.steps]
    first = checkpoint.load() or 0
    started, losses, seen = time.monotonic(), [], 0

    def gradients(batch: Sequence[Example], share: float) -> tuple[float, int, tuple[Tensor, ...]]:
        scores, starts, tokens = reader(batch)
        loss = span_loss(scores, [item.golds for item in batch], starts) * share
        return loss.item(), tokens, torch.autograd.grad(loss, list(trained.values()))

    with ThreadPoolExecutor(args.threads) as threads:
        for step, several in enumerate(steps[first:], first):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, len(steps), args.learning_rate, args.warmup)
            total = sum(map(len, several))
            parts = list(threads.map(lambda batch: gradients(batch, len(batch) / total), several))  # noqa: B023
            for value, *several_gradients in zip(trained.values(), *(found for *_, found in parts), strict=True):
                value.grad = torch.stack(several_gradients).sum(0)
            torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(sum(loss for loss, *_ in parts))
            seen += sum(tokens for _, tokens, _ in parts)
            if (step + 1) % 50 == 0:
                rate = seen / (time.monotonic() - started)
                print(
                    f"step {step + 1}/{len(steps)}  loss {np.mean(losses[-50:]):.3f}  {rate:,.0f} tokens/s", flush=True
                )
            if (step + 1) % args.save_every == 0 or step + 1 == len(steps):
                checkpoint.save(step + 1)
                save(reader, args.out / WEIGHTS)
                judge(load_span_reader(args.out / WEIGHTS, settings), held_out)


def judge(reader: SpanReader, held_out: Mapping[str, Sequence[Judged]]) -> None:
    for name, several in held_out.items():
        print(f"  held out, {name}: {figures(reader, several)}", flush=True)


def trained_parameters(reader: TrainedReader) -> dict[str, nn.Parameter]:
    """The head, and the changes to the encoder, by name."""
    return {name: value for name, value in reader.named_parameters() if value.requires_grad}


def save(reader: TrainedReader, path: Path) -> None:
    """Write the trained parameters in half precision, for `load_span_reader`."""
    tensors = {name: value.detach().half().cpu().contiguous() for name, value in trained_parameters(reader).items()}
    write_tensors(path, tensors, {"format": "span-reader-1"})


@torch.no_grad()
def start_from(reader: TrainedReader, folder: Path) -> None:
    """Load the weights that `save` wrote to a folder."""
    state = load_file(folder / WEIGHTS)
    for name, value in trained_parameters(reader).items():
        value.copy_(state[name])


@torch.no_grad()
def meet(reader: TrainedReader, start: Path, share: float) -> None:
    """Average these weights with those training started from, which is better than either (Wortsman et al. 2022).

    The new ones count for a `share`.
    """
    ends = {name: value.clone() for name, value in trained_parameters(reader).items()}
    start_from(reader, start)
    for name, value in trained_parameters(reader).items():
        value.lerp_(ends[name], share)


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", required=True, help="the reader's name in config.toml, which has its settings")
    parser.add_argument(
        "--start", type=Path, help="folder of a reader to train further, with the last stage; the mean of both is kept"
    )
    parser.add_argument(
        "--new-weight",
        type=float,
        default=0.5,
        help="what the new weights count for in that mean; a rerun with another one judges it",
    )
    parser.add_argument("--near-misses", action="store_true", help="train it on questions that are nearly answered")
    parser.add_argument(
        "--everyday", type=int, default=0, help="with --start: how often to read each of the everyday questions"
    )
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2048, help="tokens in a batch, padding included")
    parser.add_argument("--at-once", type=int, default=2, help="batches per step")
    parser.add_argument("--steps", type=int, help="stop after this many steps (default: all)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions of each stage")
    parser.add_argument("--none", type=float, default=0.25, help="share of questions whose passage has no answer")
    parser.add_argument("--save-every", type=int, default=250)
    args = begin(parser)
    if args.everyday and not args.start:
        parser.error("--everyday needs --start: only a trained reader is trained on them")
    settings = reader_of(mini_settings(), args.reader)

    encoder = load_encoder(settings.encoder, device=args.device)
    # The backward pass of fused attention is slow on a CPU: 2,000 tokens/s in bfloat16, 2,800 with eager attention.
    encoder.model.set_attn_implementation("eager")
    plan, held_out = prepare(args, encoder.tokenizer, settings.longest)
    torch.set_num_threads(1)  # one thread per batch
    encoder.model.register_module("pooler", None)  # unused
    add_low_rank(encoder.model, settings.rank)
    reader = TrainedReader(encoder, settings.longest)
    if args.start:
        start_from(reader, args.start)
    precision = torch.bfloat16 if is_fast_in_bf16(args.device) else torch.float32
    for module in reader.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.Embedding | nn.LayerNorm):
            module.to(precision)  # trained parameters, and the weights that they change, keep theirs
    learn(reader.to(args.device).train(), plan, held_out, settings, args)
    if args.start:
        meet(reader, args.start, args.new_weight)
        save(reader, args.out / WEIGHTS)
        print(f"new weights count {args.new_weight:.0%}")
        judge(load_span_reader(args.out / WEIGHTS, settings), held_out)


if __name__ == "__main__":
    main()
