"""Stage 5 of `mini`: the memory. Which words of a text are kept, and how a question finds its answer among them.

    python recipes/mini/memory.py --states build/mini/states --base build/mini/base --out build/mini/memory

First the salience of words, by whether they were asked for; then everything from a chunk's words to the answer at once:
roles and their book, rows, question encoder, aggregator, prefixes, and the base LM, which learns to be steered and is
frozen from then on. Beside the paper's question loss a pointing loss: the latent that becomes column j of the prefix is
to read the word that is piece j of the answer. Interrupted, it goes on from its last checkpoint when run again.
"""

import argparse
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from encoder import ENCODER
from memory_data import HELD_OUT, LATENTS, MIXTURE, Batch, Chosen, Dataset, Sampler, batch_of
from memory_model import WordMemory, naming_loss, pointing_loss, read, start_copying, start_roles
from options import begin, stage_parser
from torch import Tensor, nn
from torch.nn import functional
from training import Checkpoint, warm_cosine

from mbc_engine.metrics import exact_match, f1
from mbc_engine.model.amortizer import EncoderAmortizer
from mbc_engine.model.base import load_base
from mbc_engine.model.encoders import load_encoder
from mbc_engine.model.word_codebook import Roles

course = partial(warm_cosine, warmup=200, least=0.02)


def train_salience(model: WordMemory, datasets: dict[str, Dataset], *, steps: int, seed: int) -> None:
    """Which pieces will be asked for, over all datasets alike."""
    vocabulary, chance = model.codebook.vocabulary.detach().clone(), np.random.default_rng(seed)
    labels = {name: data.asked_for() for name, data in datasets.items() if name in MIXTURE}
    optimizer = torch.optim.AdamW(model.salience.parameters(), lr=2e-3)
    for step in range(steps):
        states, ids, wanted = [], [], []
        for name, share in MIXTURE.items():
            data = datasets[name]
            # A run of rows is read many times as quickly as so many single ones.
            runs = int(share * 4096) // 128 + 1
            for start in chance.integers(0, len(labels[name]) - 128, runs):
                states.append(np.asarray(data.states[start : start + 128], np.float32))
                ids.append(data.pieces[start : start + 128, 0].astype(np.int64))
                wanted.append(labels[name][start : start + 128])
        seen, pieces, labelled = (
            torch.from_numpy(np.concatenate(part)).to(vocabulary.device) for part in (states, ids, wanted)
        )
        loss = functional.binary_cross_entropy_with_logits(model.salience(seen, pieces, vocabulary), labelled)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * course(step, steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 250 == 0:
            print(f"salience {step + 1}/{steps}  loss {loss.item():.4f}", flush=True)


class Usage:
    """How often roles and shades occur; those that no word has any more get new vectors (paper, equation 2)."""

    def __init__(self, model: WordMemory) -> None:
        self._model = model
        self._books = model.codebook.role_book, model.codebook.shade_book
        self._counts = [torch.zeros(len(book), device=book.device) for book in self._books]

    def add(self, roles: Roles) -> None:
        for count, codes in zip(self._counts, (roles.role, roles.shade), strict=True):
            count.add_(torch.bincount(codes.flatten(), minlength=len(count)))

    @torch.no_grad()
    def reset(self, states: Tensor) -> str:
        """Start over, dead vectors from words of these states; how many were in use."""
        contexts = self._model.told(states).flatten(0, 1)
        left = contexts - self._books[0][self._model.codebook.nearest(contexts).role]
        told = "/".join(str(int((count > 0).sum())) for count in self._counts)
        for book, count, vectors in zip(self._books, self._counts, (contexts, left), strict=True):
            dead = (count == 0).nonzero().flatten()[: len(vectors)]
            book[dead] = vectors[torch.randperm(len(vectors))[: len(dead)]]
            count.zero_()
        return told


@torch.no_grad()
def validate(model: WordMemory, data: Chosen, documents: Sequence[int]) -> str:
    """EM and F1 with a question's own document alone, and how many answers are among the words at all."""
    model.eval()
    matches, overlaps, kept = [], [], []
    for start in range(0, len(documents), 16):
        parts = [
            (data, number, data.by_document[number])
            for number in documents[start : start + 16]
            if data.by_document[number]
        ]
        batch = batch_of(parts, str(model.codebook.role_book.device))
        prefix = model.prefix(read(model, batch).modulation)
        answers = model.base.generate(prefix, [one.question for one in batch.asked])
        for one, answer in zip(batch.asked, answers, strict=True):
            matches.append(exact_match(answer, one.answer))
            overlaps.append(f1(answer, one.answer))
            kept.append(bool((one.words[0] >= 0).any()))
    model.train()
    return f"EM {100 * np.mean(matches):.1f}  F1 {100 * np.mean(overlaps):.1f}  kept {100 * np.mean(kept):.1f}"


@dataclass(frozen=True)
class Losses:
    """Of a batch; `question` is None where the base LM has no say. `roles` are of its documents' words, [U, W]."""

    pointing: Tensor
    naming: Tensor
    book: Tensor
    question: Tensor | None
    roles: Roles

    @property
    def total(self) -> Tensor:
        """What is minimised."""
        own = self.pointing + self.naming + self.book
        return own if self.question is None else own + self.question


def losses_of(model: WordMemory, batch: Batch, *, speaks: bool) -> Losses:
    """The losses of a batch, with the base LM's if it speaks."""
    documents, device = len(batch.pieces), batch.own.device
    # Half of the steps have two documents to read, as an answer may have; some questions have none.
    has_two = bool(torch.rand(()) < 0.5)
    other = (batch.own + int(torch.randint(1, documents, (1,)))) % documents if has_two else None
    without = (torch.rand(len(batch.asked)) < 0.1 * speaks).to(device)
    with torch.autocast(device.type, torch.bfloat16):
        told = read(model, batch, other, without if speaks else None)
        question = None
        if speaks:
            targets = model.base.texts.asked(
                [one.question for one in batch.asked],
                [one.answer for one in batch.asked],
                question_window=64,
                answer_window=16,
            )
            question = model.base.loss(model.prefix(told.modulation), targets)
        return Losses(
            pointing_loss(told.pointed, batch.asked, without),
            naming_loss(model, told, batch, without),
            told.loss,
            question,
            told.roles,
        )


class Report:
    """Means of the last hundred steps' losses, as a line."""

    def __init__(self, steps: int) -> None:
        self._steps, self._began = steps, time.monotonic()
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=100)
        self._spoken: deque[float] = deque(maxlen=50)

    def add(self, losses: Losses) -> None:
        """Take a step's in."""
        self._seen.append((losses.pointing.item(), losses.naming.item(), losses.book.item()))
        if losses.question is not None:
            self._spoken.append(losses.question.item())

    def tell(self, step: int, used: str) -> None:
        """Print it; `used` is how many roles and shades occur."""
        pointing, naming, book = np.mean(self._seen, 0)
        question = np.mean(self._spoken) if self._spoken else 0.0
        print(
            f"step {step}/{self._steps}  pointing {pointing:.3f}  naming {naming:.3f}  question {question:.3f}  "
            f"roles {book:.3f} ({used})  {time.monotonic() - self._began:.0f} s",
            flush=True,
        )


def untrained(args: argparse.Namespace) -> WordMemory:
    """The memory on its base LM and encoder, before any step."""
    base = load_base(str(args.base), device=args.device)
    base.tune()
    # As they are, words are chosen and looked up by them.
    base.model.get_input_embeddings().weight.requires_grad_(False)
    base.model.set_attn_implementation("eager")
    encoder = load_encoder(ENCODER, device=args.device).model.requires_grad_(False)
    return WordMemory(base, EncoderAmortizer(encoder, LATENTS, base.shape.dim)).to(args.device)


def optimizer_of(model: WordMemory, args: argparse.Namespace) -> torch.optim.Optimizer:
    """Adam for everything but the salience, which is trained before; the base LM at a rate of its own."""
    of_base = [value for value in model.base.parameters() if value.requires_grad]
    others = {*of_base, *model.salience.parameters()}
    own = [value for value in model.parameters() if value.requires_grad and value not in others]
    groups = [{"params": own, "peak": args.learning_rate}, {"params": of_base, "peak": args.base_learning_rate}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01)


def learn(
    model: WordMemory, checkpoint: Checkpoint, data: Mapping[str, Chosen], first: int, args: argparse.Namespace
) -> None:
    """Train from step `first` on, saving and validating as it goes."""
    optimizer = checkpoint.optimizer
    learnt = {name: data[name] for name in MIXTURE}
    sampler = Sampler(learnt, args.documents, args.questions, seed=args.seed, device=args.device)
    held_out = range(len(data["squad"].by_document))[-HELD_OUT:]
    report, usage = Report(args.steps), Usage(model)
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * course(step, args.steps)
        torch.manual_seed(args.seed * 1_000_003 + step)
        batch = sampler.batch(step)
        # The base LM is most of a step's work and learns sooner than pointing does.
        losses = losses_of(model, batch, speaks=step >= args.pointing_steps and step % 2 == 1)
        losses.total.backward()
        nn.utils.clip_grad_norm_([value for group in optimizer.param_groups for value in group["params"]], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        report.add(losses)
        usage.add(losses.roles)
        done = step + 1
        if done % 100 == 0:
            report.tell(done, usage.reset(batch.states))
        if done % args.save_every == 0 or done == args.steps:
            checkpoint.save(done)
        if step >= args.pointing_steps and (done % args.validate_every == 0 or done == args.steps):
            for name, documents in (("validation", range(150)), ("squad", held_out)):
                print(f"  {name}: {validate(model, data[name], documents)}", flush=True)


def main() -> None:
    parser = stage_parser(__doc__, "base", "out", "threads", "device", "seed")
    parser.add_argument("--states", type=Path, required=True, help="what states.py made")
    parser.add_argument("--salience-steps", type=int, default=1500)
    parser.add_argument(
        "--pointing-steps", type=int, default=1200, help="steps before the base LM joins in, at every other one"
    )
    parser.add_argument("--steps", type=int, default=5600)
    parser.add_argument("--documents", type=int, default=20, help="documents of a step")
    parser.add_argument("--questions", type=int, default=5, help="most questions about one of them")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--base-learning-rate", type=float, default=5e-4)
    parser.add_argument("--validate-every", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=250)
    args = begin(parser)

    model = untrained(args)
    checkpoint = Checkpoint(args.out / "training.safetensors", model.trained(), optimizer_of(model, args))
    first = checkpoint.load()
    datasets = {name: Dataset(args.states / name) for name in ("validation", *MIXTURE)}
    if first is None:
        train_salience(model, datasets, steps=args.salience_steps, seed=args.seed)
        checkpoint.save(0)
    vocabulary = model.codebook.vocabulary.detach().clone()
    data = {name: Chosen(one, model.salience, vocabulary) for name, one in datasets.items()}
    print("words chosen", flush=True)
    if not first:
        start_roles(model, {name: data[name] for name in MIXTURE}, seed=args.seed)
        start_copying(model)
    learn(model, checkpoint, data, first or 0, args)
    model.save(args.out)


if __name__ == "__main__":
    main()
