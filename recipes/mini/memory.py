"""Stage 5 of `mini`: the memory. Which words of a text are kept, and how a question finds its answer among them.

    python recipes/mini/memory.py --states build/mini/states --base build/mini/base --out build/mini/memory

First the salience of words, by whether they were asked for; then everything from a chunk's words to the answer at once:
roles and their book, rows, question encoder, aggregator, prefixes, and the base LM, which learns to be steered and is
frozen from then on. Beside the paper's question loss a pointing loss: the latent that becomes column j of the prefix is
to read the word that is piece j of the answer. Interrupted, it goes on from its last checkpoint when run again.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.metrics import exact_match, f1
from mbc_engine.model.address import Address
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.amortizer import EncoderAmortizer
from mbc_engine.model.base import BaseLM, load_base
from mbc_engine.model.encoders import load_encoder
from mbc_engine.model.kmeans import kmeans
from mbc_engine.model.prefix import PrefixNetwork
from mbc_engine.model.salience import Salience, chosen
from mbc_engine.model.tensor_file import write_tensors
from mbc_engine.model.word_codebook import Roles, WordCodebook
from mbc_engine.model.word_pieces import Pieces

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
LATENTS, WORDS, ROLE_DIM = 8, 52, 64
# How often a document comes from which dataset.
MIXTURE = {"news": 0.6, "squad": 0.16, "reddit": 0.05, "amazon": 0.05, "newspapers": 0.08, "sentences": 0.06}
HELD_OUT = 100  # documents at the end of "squad" that are validated on
OCCURRENCES = 4


@dataclass(frozen=True)
class Asked:
    """A question about a document; `words` says which words each piece of its answer is, [LATENTS, OCCURRENCES]."""

    document: int
    question: str
    answer: str
    words: np.ndarray


class Dataset:
    """A dataset of `states.py`."""

    def __init__(self, folder: Path) -> None:
        index = np.load(folder / "index.npz")
        texts = json.loads((folder / "texts.json").read_text())
        self.texts: list[str] = texts["documents"]
        self.asked: list[tuple[str, str]] = [(question, answer) for question, answer in texts["asked"]]
        self.pieces, self.start, self.count = index["pieces"], index["document_start"], index["document_count"]
        self.question_start, self.question_count = index["question_start"], index["question_count"]
        self.document_of = index["document_of"]
        width = 384
        self.states = np.memmap(folder / "documents.f16", np.float16, "r").reshape(-1, width)
        self.question_states = np.memmap(folder / "questions.f16", np.float16, "r").reshape(-1, width)

    def spans(self, document: int) -> np.ndarray:
        """From where to where the document's pieces stand in it, [P, 2]."""
        start = self.start[document]
        spans: np.ndarray = self.pieces[start : start + self.count[document], 1:]
        return spans

    def occurrences(self, number: int) -> Iterator[np.ndarray]:
        """The pieces of each occurrence of a question's answer in its document."""
        document, answer = int(self.document_of[number]), self.asked[number][1]
        text, spans = self.texts[document], self.spans(document)
        at = text.find(answer)
        while at >= 0 and answer:
            yield np.nonzero((spans[:, 0] < at + len(answer)) & (spans[:, 1] > at))[0]
            at = text.find(answer, at + 1)

    def asked_for(self) -> np.ndarray:
        """Of each row of the states whether it is part of an answer."""
        labels = np.zeros(len(self.pieces), np.float32)
        for number, document in enumerate(self.document_of):
            for places in self.occurrences(number):
                labels[self.start[document] + places] = 1
        return labels


class Chosen:
    """The words of a dataset's documents that are kept, and its questions by document."""

    def __init__(self, data: Dataset, salience: Salience, vocabulary: Tensor) -> None:
        self.data = data
        self.pieces = torch.zeros(len(data.texts), WORDS, dtype=torch.int64)
        self.states = torch.zeros(len(data.texts), WORDS, data.states.shape[1], dtype=torch.float16)
        self.place = np.full((len(data.texts), WORDS), -1)
        for document in range(len(data.texts)):
            start, count = data.start[document], data.count[document]
            if not count:
                continue
            ids = torch.from_numpy(data.pieces[start : start + count, 0].astype(np.int64))
            states = torch.from_numpy(data.states[start : start + count].astype(np.float32))
            with torch.no_grad():
                odds = salience(states.to(vocabulary.device), ids.to(vocabulary.device), vocabulary).cpu()
            one = torch.zeros(1, count, dtype=torch.int64)
            pieces = Pieces(ids[None], torch.ones(1, count, dtype=torch.bool), one, one, one)
            kept = chosen(pieces, odds[None], WORDS)[0]
            kept = kept[kept >= 0]
            self.pieces[document, : len(kept)] = ids[kept]
            self.states[document, : len(kept)] = states[kept].half()
            self.place[document, : len(kept)] = kept.numpy()
        self.by_document: list[list[Asked]] = [[] for _ in data.texts]
        for number, (question, answer) in enumerate(data.asked):
            document = int(data.document_of[number])
            words = np.full((LATENTS, OCCURRENCES), -1)
            for occurrence, places in zip(range(OCCURRENCES), data.occurrences(number), strict=False):
                for piece, place in enumerate(places[:LATENTS]):
                    found = np.nonzero(self.place[document] == place)[0]
                    words[piece, occurrence] = found[0] if len(found) else -1
            self.by_document[document].append(Asked(number, question, answer, words))

    def question(self, number: int) -> Tensor:
        start = self.data.question_start[number]
        return torch.from_numpy(
            self.data.question_states[start : start + self.data.question_count[number]].astype(np.float32)
        )


class WordMemory(nn.Module):
    """What is trained, under the names it has in a model."""

    def __init__(self, base: BaseLM, questions: EncoderAmortizer) -> None:
        super().__init__()
        shape, width = base.shape, questions.encoder.config.hidden_size
        self.base = base
        self.salience = Salience(width, shape.dim)
        self.told = nn.Linear(width, ROLE_DIM)
        self.questions = questions
        # Its address is trained apart, by address.py.
        address = Address(width)
        self.codebook = WordCodebook(base.model.get_input_embeddings(), address, words=WORDS, role_dim=ROLE_DIM)
        self.aggregator = Aggregator(shape.dim, blocks=3, heads=6, head_dim=32, hidden=384)
        self.prefix = PrefixNetwork(
            shape.dim, shape.layers, shape.kv_heads, shape.head_dim, columns=LATENTS, hidden=32, slot_embedding=True
        )
        # In training alone: what a latent has read, as a piece of the vocabulary.
        self.naming = nn.Linear(shape.dim, shape.dim)


@dataclass(frozen=True)
class Batch:
    """Documents' words, questions' states, which document each question is about, and what is asked."""

    pieces: Tensor
    states: Tensor
    questions: Tensor
    mask: Tensor
    own: Tensor
    asked: Sequence[Asked]


def batch_of(parts: Sequence[tuple[Chosen, int, Sequence[Asked]]], device: str) -> Batch:
    """Documents, each with some of its questions."""
    rows = [data.question(one.document) for data, _, several in parts for one in several]
    longest = max(map(len, rows))
    questions, mask = (
        torch.zeros(len(rows), longest, rows[0].shape[1]),
        torch.zeros(len(rows), longest, dtype=torch.int64),
    )
    for number, row in enumerate(rows):
        questions[number, : len(row)], mask[number, : len(row)] = row, 1
    return Batch(
        torch.stack([data.pieces[document] for data, document, _ in parts]).to(device),
        torch.stack([data.states[document] for data, document, _ in parts]).to(device).float(),
        questions.to(device),
        mask.to(device),
        torch.tensor([number for number, (_, _, several) in enumerate(parts) for _ in several], device=device),
        [one for _, _, several in parts for one in several],
    )


class Sampler:
    """Batches of a mixture of datasets; the same for the same step and seed."""

    def __init__(self, data: dict[str, Chosen], documents: int, most: int, *, seed: int, device: str) -> None:
        self.data, self.documents, self.most, self.seed, self.device = data, documents, most, seed, device
        self.usable = {
            name: [number for number, several in enumerate(own.by_document) if several][
                : -HELD_OUT if name == "squad" else None
            ]
            for name, own in data.items()
        }

    def batch(self, step: int) -> Batch:
        chance = random.Random(f"{self.seed}/{step}")
        names = chance.choices(list(MIXTURE), list(MIXTURE.values()), k=self.documents)
        parts = []
        for name in names:
            own = self.data[name]
            document = chance.choice(self.usable[name])
            several = own.by_document[document]
            parts.append((own, document, chance.sample(several, min(self.most, len(several)))))
        return batch_of(parts, self.device)


@dataclass(frozen=True)
class Told:
    """What became of a batch.

    Attributes:
        modulation: of its questions, [B, LATENTS, D].
        pointed: where their latents looked, [B, LATENTS, W or 2 W].
        loss: the codebook's.
        roles: of its documents' words, [U, W].
    """

    modulation: Tensor
    pointed: Tensor
    loss: Tensor
    roles: Roles


def read(model: WordMemory, batch: Batch, other: Tensor | None = None, without: Tensor | None = None) -> Told:
    """What questions take from their own documents, and from another one each if there is to be one."""
    quantized = model.codebook.quantize(batch.pieces, model.told(batch.states))
    bank = quantized.rows[batch.own]
    if other is not None:
        bank = torch.cat([bank, quantized.rows[other]], dim=1)
    question = model.questions.readout(batch.questions, batch.mask)
    aggregated = model.aggregator(question, bank)
    modulation = aggregated.modulation
    if without is not None:
        modulation = torch.where(without[:, None, None], question, modulation)
    return Told(modulation, aggregated.pointed, quantized.loss, quantized.roles)


def pointing_loss(pointed: Tensor, asked: Sequence[Asked], skip: Tensor) -> Tensor:
    """How far latent j is from reading piece j of the answer, the mean over the pieces that are among the words."""
    words = torch.from_numpy(np.stack([one.words for one in asked])).to(pointed.device)
    there = (words >= 0) & ~skip[:, None, None]
    mass = (pointed.float().gather(2, words.clamp_min(0)) * there).sum(-1)
    wanted = there.any(-1)
    return -mass[wanted].clamp_min(1e-6).log().mean()


def naming_loss(model: WordMemory, told: Told, batch: Batch, skip: Tensor) -> Tensor:
    """How far latent j is from naming piece j of the answer, the mean over the pieces that are among the words."""
    words = torch.from_numpy(np.stack([one.words[:, 0] for one in batch.asked])).to(batch.own.device)
    wanted = (words >= 0) & ~skip[:, None]
    pieces = batch.pieces[batch.own].gather(1, words.clamp_min(0))[wanted]
    logits = model.naming(told.modulation[wanted]) @ model.codebook.vocabulary.T
    return functional.cross_entropy(logits.float(), pieces)


def learning_rate(step: int, steps: int, warmup: int = 200) -> float:
    """Linear warm-up, then half a cosine down to a fiftieth."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


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
            count = int(share * 4096)
            for start in chance.integers(0, len(labels[name]) - 128, count // 128 + 1):
                states.append(np.asarray(data.states[start : start + 128], np.float32))
                ids.append(data.pieces[start : start + 128, 0].astype(np.int64))
                wanted.append(labels[name][start : start + 128])
        seen, pieces, labelled = (
            torch.from_numpy(np.concatenate(part)).to(vocabulary.device) for part in (states, ids, wanted)
        )
        loss = functional.binary_cross_entropy_with_logits(model.salience(seen, pieces, vocabulary), labelled)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * learning_rate(step, steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 250 == 0:
            print(f"salience {step + 1}/{steps}  loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def start_roles(model: WordMemory, data: dict[str, Chosen], *, seed: int, sample: int = 20_000) -> None:
    """Roles start as clusters of the principal components of words' states, each component as wide as the others."""
    chance = np.random.default_rng(seed)
    states = torch.cat([own.states[own.place >= 0] for own in data.values()])
    states = states[torch.from_numpy(chance.choice(len(states), min(sample, len(states)), replace=False))]
    states = states.to(model.told.weight.device).float()
    mean = states.mean(0)
    values, directions = torch.linalg.eigh((states - mean).T @ (states - mean) / len(states))
    model.told.weight.copy_((directions[:, -ROLE_DIM:] / values[-ROLE_DIM:].sqrt()).T)
    model.told.bias.copy_(-model.told.weight @ mean)
    torch.manual_seed(seed)
    contexts = model.told(states)
    model.codebook.role_book.copy_(kmeans(contexts, model.codebook.roles).centres)
    start_shades(model, contexts)


@torch.no_grad()
def start_shades(model: WordMemory, contexts: Tensor) -> None:
    """Shades start as clusters of what roles leave over of contexts."""
    left = contexts - model.codebook.role_book[model.codebook.nearest(contexts).role]
    model.codebook.shade_book.copy_(kmeans(left, len(model.codebook.shade_book)).centres)


@torch.no_grad()
def start_copying(model: WordMemory) -> None:
    """The last block starts by passing on what its latents read, and naming by taking it as it is."""
    last = model.aggregator.blocks[-1].attention
    for weight in (last.value.weight, last.output.weight, model.naming.weight):
        nn.init.eye_(weight)
    for bias in (last.output.bias, model.naming.bias):
        nn.init.zeros_(bias)


class Usage:
    """How often roles and shades occur; those that no word has any more get new vectors (paper, equation 2)."""

    def __init__(self, model: WordMemory) -> None:
        self._model = model
        self._books = model.codebook.role_book, model.codebook.shade_book
        self._counts = [torch.zeros(len(book), device=book.device) for book in self._books]

    def add(self, roles: Roles) -> None:
        for count, codes in zip(self._counts, (roles.role, roles.shade), strict=True):
            count += torch.bincount(codes.flatten(), minlength=len(count))

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


class Checkpoint:
    """Everything that changes, in one file that is complete or not there."""

    def __init__(self, path: Path, model: WordMemory, optimizer: torch.optim.Optimizer) -> None:
        self.path, self.model, self.optimizer = path, model, optimizer

    def _own(self) -> dict[str, Tensor]:
        others = ("questions.encoder.", "codebook.address.", "codebook.rarity", "base.model.lm_head.")
        return {name: value for name, value in self.model.state_dict().items() if not name.startswith(others)}

    def save(self, step: int) -> None:
        tensors = {f"model.{name}": value for name, value in self._own().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
        write_tensors(
            self.path, {name: value.detach().contiguous() for name, value in tensors.items()}, {"step": str(step)}
        )

    def load(self) -> int:
        """The step to go on from; -1 without a checkpoint."""
        if not self.path.exists():
            return -1
        with safe_open(self.path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step = int(file.metadata()["step"])
        with torch.no_grad():
            for name, value in self._own().items():
                value.copy_(tensors[f"model.{name}"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, number, key = name.split(".")
                state.setdefault(int(number), {})[key] = value
        if state:
            self.optimizer.load_state_dict(
                {"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]}
            )
        return step


def finish(model: WordMemory, out: Path) -> None:
    """Write what was trained: the base LM as a folder, the rest under the names it has in a model."""
    model.base.save(out / "base")
    parts = {
        "documents.amortizer.salience": model.salience,
        "documents.amortizer.told": model.told,
        "questions.amortizer": model.questions,
        "codebook": model.codebook,
        "aggregator": model.aggregator,
        "prefix": model.prefix,
    }
    others = ("questions.amortizer.encoder.", "codebook.address.", "codebook.rarity")
    tensors = {f"{part}.{name}": value for part, own in parts.items() for name, value in own.state_dict().items()}
    own = {name: value.cpu().contiguous() for name, value in tensors.items() if not name.startswith(others)}
    write_tensors(out / "memory.safetensors", own, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
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
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    base = load_base(str(args.base), device=args.device)
    base.tune()
    # As they are, words are chosen and looked up by them.
    base.model.get_input_embeddings().weight.requires_grad_(False)
    base.model.set_attn_implementation("eager")
    encoder = load_encoder(ENCODER, device=args.device).model.requires_grad_(False)
    model = WordMemory(base, EncoderAmortizer(encoder, LATENTS, base.shape.dim)).to(args.device)
    of_base = {value for value in base.parameters() if value.requires_grad}
    fixed = {*model.salience.parameters(), *encoder.parameters()}
    own = [value for value in model.parameters() if value.requires_grad and value not in of_base | fixed]
    optimizer = torch.optim.AdamW(
        [
            {"params": own, "peak": args.learning_rate},
            {"params": [value for value in base.parameters() if value in of_base], "peak": args.base_learning_rate},
        ],
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )
    checkpoint = Checkpoint(args.out / "training.safetensors", model, optimizer)
    first = checkpoint.load()
    datasets = {name: Dataset(args.states / name) for name in ("validation", *MIXTURE)}
    if first < 0:
        train_salience(model, datasets, steps=args.salience_steps, seed=args.seed)
        checkpoint.save(0)
        first = 0
    vocabulary = base.model.get_input_embeddings().weight.detach().clone()
    data = {name: Chosen(one, model.salience, vocabulary) for name, one in datasets.items()}
    print("words chosen", flush=True)
    if first == 0:
        start_roles(model, {name: data[name] for name in MIXTURE}, seed=args.seed)
        start_copying(model)
    sampler = Sampler(
        {name: data[name] for name in MIXTURE}, args.documents, args.questions, seed=args.seed, device=args.device
    )
    held_out = list(range(len(datasets["squad"].texts)))[-HELD_OUT:]

    began, seen, spoken = time.monotonic(), [], []
    usage, used = Usage(model), ""
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * learning_rate(step, args.steps)
        torch.manual_seed(args.seed * 1_000_003 + step)
        batch = sampler.batch(step)
        # The base LM is most of a step's work and learns sooner than pointing does.
        speaks = step >= args.pointing_steps and step % 2 == 1
        # Half of the steps have two documents to read, as an answer may have; some questions have none.
        other = (
            (batch.own + int(torch.randint(1, args.documents, (1,)))) % args.documents if torch.rand(()) < 0.5 else None
        )
        without = (torch.rand(len(batch.asked)) < 0.1 * speaks).to(args.device)
        with torch.autocast(torch.device(args.device).type, torch.bfloat16):
            told = read(model, batch, other, without if speaks else None)
            pointing = pointing_loss(told.pointed, batch.asked, without)
            naming = naming_loss(model, told, batch, without)
            loss = pointing + naming + told.loss
            question = torch.zeros((), device=args.device)
            if speaks:
                targets = base.asked(
                    [one.question for one in batch.asked],
                    [one.answer for one in batch.asked],
                    question_window=64,
                    answer_window=16,
                )
                question = base.loss(model.prefix(told.modulation), targets)
                loss = loss + question
        loss.backward()
        nn.utils.clip_grad_norm_([*own, *of_base], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seen.append((pointing.item(), naming.item(), told.loss.item()))
        spoken += [question.item()] * speaks
        usage.add(told.roles)
        if (step + 1) % 100 == 0:
            used = usage.reset(batch.states)
        if (step + 1) % 100 == 0:
            pointing_mean, naming_mean, book_mean = np.mean(seen[-100:], 0)
            question_mean = np.mean(spoken[-50:]) if spoken else 0.0
            print(
                f"step {step + 1}/{args.steps}  pointing {pointing_mean:.3f}  naming {naming_mean:.3f}  "
                f"question {question_mean:.3f}  roles {book_mean:.3f} ({used})  {time.monotonic() - began:.0f} s",
                flush=True,
            )
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            checkpoint.save(step + 1)
        if step >= args.pointing_steps and ((step + 1) % args.validate_every == 0 or step + 1 == args.steps):
            for name, documents in (("validation", list(range(150))), ("squad", held_out)):
                print(f"  {name}: {validate(model, data[name], documents)}", flush=True)
    finish(model, args.out)


if __name__ == "__main__":
    main()
