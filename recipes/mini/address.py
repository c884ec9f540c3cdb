"""The addresses of `mini`, by which chunks are found. No gradients: the encoder is frozen, codebooks come from k-means.

    python recipes/mini/address.py --data ../shared/data --out build/mini/address

Reads Wikipedia paragraphs and the paragraphs and questions of QA training sets, computes their sentence vectors, which
are saved in `--out` part by part, and writes `address.safetensors`. A rerun resumes after the last saved part. Six
articles of SQuAD's training set are held out: the settings were chosen on their questions. Runs unchanged on a GPU
(`--device cuda`).
"""

import lzma
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from encoder import ENCODER
from numpy.typing import NDArray
from options import begin, qa_rows, stage_parser
from product_quantisation import fit
from safetensors.numpy import save_file
from torch import Tensor

from mbc_engine.lm.bert import Floats
from mbc_engine.lm.encoders import Encoder, load_encoder, mean_pooled
from mbc_engine.lm.pretrained import is_fast_in_bf16
from mbc_engine.mini.retrieval import Address

QA_SETS = ("squad_train_part", "archivalqa_like", "squadshifts_reddit", "squadshifts_amazon")
HELD_OUT = (
    "2008_Sichuan_earthquake",
    "Beyoncé",
    "Frédéric_Chopin",
    "IPod",
    "New_York_City",
    "Sino-Tibetan_relations_during_the_Ming_dynasty",
)
ARTICLES_IN_PART = 600
OTHERS = 6000  # paragraphs that no question is about


@dataclass(frozen=True)
class Asked:
    """Paragraphs, questions, and which paragraph each question is about."""

    paragraphs: list[str]
    questions: list[str]
    about: list[int]


def asked(data: Path, name: str, wanted: Callable[[str], bool] | None = None) -> Asked:
    """A QA set's distinct paragraphs and its questions, of all titles or of the wanted ones."""
    rows = [row for row in qa_rows(data, name) if wanted is None or wanted(row["title"])]
    places = {text: place for place, text in enumerate(dict.fromkeys(row["text"] for row in rows))}
    return Asked(list(places), [row["question"].strip() for row in rows], [places[row["text"]] for row in rows])


def articles(data: Path, *files: int) -> list[str]:
    """The articles of these Wikipedia files."""
    texts = [lzma.decompress((data / "text" / f"wikipedia-{file}.txt.xz").read_bytes()).decode() for file in files]
    return [article.strip() for text in texts for article in text.split("\n\n\n")]


def paragraphs(article: str, rng: random.Random, most: int, longest: int) -> list[str]:
    """At most `most` neighbouring paragraphs of an article, of 300 to `longest` characters each."""
    suitable = [line for line in article.split("\n")[1:] if 300 <= len(line) <= longest]
    start = rng.randint(0, max(0, len(suitable) - most))
    return suitable[start : start + most]


class Vectors:
    """Sentence vectors, computed once and saved in a folder."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self._encoder: Encoder | None = None

    def of(self, name: str, texts: Callable[[], list[str]]) -> Tensor:
        """The vectors saved under this name, or else those of the texts: [N, E], float32."""
        path = self.folder / f"{name}.npy"
        if not path.exists():
            started = time.monotonic()
            vectors = self._compute(texts())
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                np.save(file, vectors.half().cpu().numpy())
            partial.rename(path)
            print(f"{name}: {len(vectors):,} texts, {time.monotonic() - started:.0f} s", flush=True)
        return torch.from_numpy(np.load(path)).float().to(self.device)

    @torch.no_grad()
    def _compute(self, texts: list[str], tokens: int = 2560) -> Tensor:
        """Encode texts in batches of similar length and up to `tokens` tokens."""
        if self._encoder is None:
            self._encoder = load_encoder(ENCODER, device=self.device)
        model, tokenizer = self._encoder.model.eval(), self._encoder.tokenizer
        ids = tokenizer(texts, truncation=True, max_length=256)["input_ids"]
        order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        vectors = torch.zeros(len(ids), model.config.hidden_size, device=self.device)
        while order:
            count = max(1, tokens // len(ids[order[0]]))
            rows, order = order[:count], order[count:]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt").to(self.device)
            is_fast = is_fast_in_bf16(self.device)
            with torch.autocast(self.device, torch.bfloat16, enabled=is_fast):
                states = model(**batch).last_hidden_state
            vectors[rows] = mean_pooled(states.float(), batch["attention_mask"])
        return vectors


def ranks(scores: Floats, about: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many documents score higher than the right one, [questions, documents] -> [questions]."""
    return (scores > np.take_along_axis(scores, about[:, None], 1)).sum(1)


def share(ranks: NDArray[np.int64]) -> str:
    """How often the right one is first / in the first five, in percent."""
    return " / ".join(f"{100 * (ranks < limit).mean():.1f}" for limit in (1, 5))


def scores(address: Address, questions: Floats, codes: NDArray[np.int64], whitening: Floats | None) -> Floats:
    """Question vectors and chunk codes -> [questions, chunks], one look-up per position."""
    tables = address.tables(questions, whitening)
    return sum(tables[:, place, codes[:, place]] for place in range(address.tokens))


def measure(address: Address, documents: Floats, questions: Floats, about: NDArray[np.int64], others: Floats) -> None:
    """Print how often the right document is first and in the first five, by float vectors and by addresses."""
    asking = address.of_questions(questions)
    for bank in (documents, np.concatenate([documents, others])):
        codes = address.encode(address.of_documents(bank))
        print(
            f"  of {len(bank):,}:  float {share(ranks(questions @ bank.T, about))}"
            f"   addresses {share(ranks(scores(address, asking, codes, None), about))}"
            f"   whitened {share(ranks(scores(address, asking, codes, address.whitening(codes)), about))}",
            flush=True,
        )


def fit_scale(address: Address, documents: Floats, questions: Floats, about: NDArray[np.int64]) -> None:
    """Set the scale to the one of maximum likelihood for these questions."""
    address.log_scale[...] = 0
    codes = address.encode(address.of_documents(documents))
    plain = scores(address, address.of_questions(questions), codes, address.whitening(codes))
    candidates = np.linspace(1.5, 4.5, 61)

    def loss(scale: float) -> float:
        logs = plain * math.exp(scale)
        logs -= logs.max(1, keepdims=True)
        return float((np.log(np.exp(logs).sum(1)) - np.take_along_axis(logs, about[:, None], 1)[:, 0]).mean())

    address.log_scale[...] = min(candidates, key=loss)


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument(
        "--parts", type=int, default=4, help=f"parts of Wikipedia to use, of {ARTICLES_IN_PART} articles each; up to 11"
    )
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=20, help="iterations of k-means")
    args = begin(parser)
    vectors = Vectors(args.out, args.device)

    long = [article for article in articles(args.data, 0, 1, 2) if len(article) > 4000]
    random.Random(1).shuffle(long)
    documents = []
    for part in range(args.parts):
        first = part * ARTICLES_IN_PART
        rng, chosen = random.Random(first), long[first : first + ARTICLES_IN_PART]
        lines = [line for article in chosen for line in paragraphs(article, rng, 8, 1000)]
        documents.append(vectors.of(f"wikipedia-{part}", lambda lines=lines: lines))
    others_chance = random.Random(7)
    lines = [line for article in articles(args.data, 3) for line in paragraphs(article, others_chance, 4, 1500)]
    others = vectors.of("others", lambda: lines[:OTHERS])
    for name in QA_SETS:
        training = asked(args.data, name, lambda title: title not in HELD_OUT)
        documents.append(vectors.of(f"{name}-documents", lambda training=training: training.paragraphs))
    squad = asked(args.data, QA_SETS[0], lambda title: title not in HELD_OUT)
    questions = vectors.of(f"{QA_SETS[0]}-questions", lambda: squad.questions)

    address = Address(documents[0].shape[1], dim=args.dim)
    fit(address, torch.cat(documents), questions, iterations=args.iterations)
    for name, evaluated in (
        ("held-out", asked(args.data, QA_SETS[0], lambda title: title in HELD_OUT)),
        ("squad_val", asked(args.data, "squad_val")),
    ):
        its_documents = vectors.of(f"{name}-documents", lambda evaluated=evaluated: evaluated.paragraphs).cpu().numpy()
        its_questions = vectors.of(f"{name}-questions", lambda evaluated=evaluated: evaluated.questions).cpu().numpy()
        about = np.array(evaluated.about)
        if name == "held-out":
            fit_scale(address, its_documents, its_questions, about)
        print(f"{name}, {len(about):,} questions, right paragraph first / in the first five (%)")
        measure(address, its_documents, its_questions, about, others.cpu().numpy())
    save_file(address.arrays(), args.out / "address.safetensors")


if __name__ == "__main__":
    main()
