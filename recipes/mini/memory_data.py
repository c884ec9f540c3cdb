"""What the memory of `mini` learns from: the words of texts that are kept, and questions about them.

What `states.py` computed, cut down to the words that salience chooses, as batches of a mixture of datasets.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mbc_engine.model.salience import Salience, chosen
from mbc_engine.model.word_pieces import Pieces

LATENTS, WORDS = 8, 52
# How often a document comes from which dataset.
MIXTURE = {"news": 0.6, "squad": 0.16, "reddit": 0.05, "amazon": 0.05, "newspapers": 0.08, "sentences": 0.06}
HELD_OUT = 100  # documents at the end of "squad" that are validated on
OCCURRENCES = 4


@dataclass(frozen=True)
class Asked:
    """A question by its number; `words` says which words each piece of its answer is, [LATENTS, OCCURRENCES]."""

    number: int
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
    rows = [data.question(one.number) for data, _, several in parts for one in several]
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

    def __init__(self, data: Mapping[str, Chosen], documents: int, most: int, *, seed: int, device: str) -> None:
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
