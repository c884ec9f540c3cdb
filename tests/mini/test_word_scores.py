"""Scores of chunks by their codes and words, however the banks have changed: against the formula over their texts."""

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mbc_engine import Selection
from mbc_engine.bank import BankHeader, Banks, CodeShape, MemoryBank, ModelSignature, Origin, StoredDocument
from mbc_engine.bank.exchange import merge
from mbc_engine.bank.word_index import words_of
from mbc_engine.bank.words import WORDS, content_words, number_of
from mbc_engine.mini.retrieval import Scope, checked
from mbc_engine.ranking import Hit
from mbc_engine.text import Chunk

WEIGHT = 0.7
TABLES = np.random.default_rng(1).standard_normal((2, 3, 8), np.float32)  # one of each question
VOCABULARY = st.sampled_from(["amber", "zinc", "zincs", "Ösel", "1843", "cobalt", "the", "of"])
TEXTS = st.lists(VOCABULARY, max_size=5).map(" ".join)
QUESTIONS = st.lists(st.lists(VOCABULARY, max_size=4).map(" ".join), min_size=2, max_size=2)
DOCUMENTS = st.lists(st.tuples(st.integers(0, 9), st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), DOCUMENTS),
        st.tuples(st.just("merge"), DOCUMENTS),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 9), max_size=3)),
        st.tuples(st.just("compact"), st.none()),
    ),
    max_size=6,
)


@pytest.fixture(scope="module", autouse=True)
def tiny_blocks() -> Any:
    """Blocks that a few documents fill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
        yield


def empty() -> MemoryBank:
    return MemoryBank.create(None, ModelSignature("m", "0" * 8, "1" * 8), CodeShape(3, 1, 8, True), 4, keeps_text=True)


def put(bank: MemoryBank, documents: list[tuple[int, list[str]]]) -> None:
    """Store each under its own name, replacing what had that name before."""
    for name, texts in documents:
        digest = hashlib.sha256(repr((name, texts)).encode()).hexdigest()
        chunks = [Chunk(text, 100 * place) for place, text in enumerate(texts)]
        codes = np.random.default_rng(name).integers(0, 8, (len(texts), 3, 1)).astype(np.uint16)
        bank.put([StoredDocument(digest, len(texts), 1, (Origin(f"/{name}.txt", "", None),), codes, chunks)])


def shares(bank: MemoryBank | Banks, questions: list[str], selection: Selection) -> list[dict[int, float]]:
    """For each question the share of each chunk, the largest first."""
    scope = Scope(None, bank, selection)  # type: ignore[arg-type]  # addresses are not read
    with bank.snapshot():
        assert scope.words(questions, 0.0) == [[]] * len(questions)
        every = scope.best(TABLES, 99, scope.words(questions, WEIGHT))
    for hits in every:
        assert hits == sorted(hits, key=lambda hit: -hit.share)
    return [{hit.chunk: hit.share for hit in hits} for hits in every]


def expected(
    bank: MemoryBank | Banks, question: str, table: NDArray[np.float32], selection: Selection
) -> dict[int, float]:
    everything = range(bank.totals().chunks)
    codes = bank.codes_at(everything)[..., 0]
    held = [set((words_of([chunk.text]) % WORDS).tolist()) for chunk in bank.texts_at(everything)]
    names = [chunk.document.origins[0].source for chunk in bank.chunks_at(everything)]
    scores = {}
    for chunk, words in enumerate(held):
        if not any(Path(names[chunk]).match(pattern) for pattern in selection.exclude):
            shared = words & set(map(number_of, asked := content_words(question)))
            rarity = [math.log((len(held) + 1) / (sum(word in other for other in held) + 0.5)) for word in shared]
            scores[chunk] = math.exp(
                table[range(3), codes[chunk]].sum() + WEIGHT * sum(rarity) * max(1, 4 / len(asked or "?"))
            )
    return {chunk: score / sum(scores.values()) for chunk, score in scores.items()}


@settings(max_examples=15)
@given(STEPS, DOCUMENTS, QUESTIONS)
def test_word_scores_follow_changes(
    steps: list[tuple[str, Any]], others: list[tuple[int, list[str]]], questions: list[str]
) -> None:
    with empty() as bank, empty() as another:
        put(another, others)
        several = Banks([bank, another])
        for step, what in steps:
            match step:
                case "add":
                    put(bank, what)
                case "merge":
                    with empty() as other:
                        put(other, what)
                        list(merge(bank, other))
                case "remove":
                    bank.remove([(f"/{name}.txt", "") for name in what])
                case _:
                    bank.compact()
            for searched in (bank, several):
                for selection in (Selection(), Selection(exclude=("1.txt", "3.txt"))):
                    each = shares(searched, questions, selection)
                    for chunk_shares, question, table in zip(each, questions, TABLES, strict=True):
                        assert chunk_shares == pytest.approx(expected(searched, question, table, selection), rel=1e-4)


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("parental", "Parental leave takes a year."),
        ("storm glass", "A storm glass shows the weather."),
        ("BV-3381", "Pump BV-3381 is out of order."),
        ("--include-untracked", "git stash --include-untracked keeps new files."),
        ("What does tar -L do?", "tar -L follows links."),
        ("the who", "They heard the Who play."),
        ("token losses", "See token_losses for that."),
        ("\u6a4b\u306e", "\u6771\u4eac\u306e\u6a4b\u306e\u4e0b"),
        ("\N{PARTY POPPER}", "It works \N{PARTY POPPER}"),
    ],
)
def test_words_as_they_are_and_phrases_count_more(query: str, right: str) -> None:
    texts = [
        *(
            "A parent leaves at three.",
            "The glass broke in a storm.",
            "Pump 3381 is a BV.",
            "Include what is untracked.",
            "tar -l counts links.",
        ),
        *("Who has the key?", "Losses of a token.", "\u306e\u6a4b\u6771\u4eac", right),
    ]
    hits = [Hit(chunk, 0.1, document=chunk) for chunk in range(len(texts))]
    found = checked(query, hits, texts)
    assert texts[found[0].chunk] == right
    assert sum(hit.share for hit in found) <= 1
    for question, known in (("nothing of this", texts), (query, [None, *texts[1:]])):
        assert [hit.chunk for hit in checked(question, hits, known)] == list(range(len(texts)))


def test_words_between_others_are_no_phrase() -> None:
    texts = ["Those who see which parcels are here, leave.", "Parcels weighed in May."]
    hits = [Hit(chunk, 0.1, document=chunk) for chunk in range(len(texts))]
    assert checked("How do I see which parcels are weighed?", hits, texts)[0].chunk == 1


def test_phrases_in_texts_that_only_a_language_model_can_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The corner is by the harbour.", "It leaks at the harbour corner.", "Snow in the harbour."]
    looked_up: list[int] = []

    def of(chunks: Iterable[int]) -> dict[int, SimpleNamespace]:
        looked_up.extend(chunks)
        return {chunk: SimpleNamespace(passage=texts[chunk]) for chunk in looked_up}

    scope = Scope.__new__(Scope)
    scope.bank = cast("Any", SimpleNamespace(chunks_with=lambda _: [np.array([0, 1]), np.arange(3)]))
    monkeypatch.setattr("mbc_engine.mini.retrieval.plain_texts", lambda *_: [None] * 3)
    hits, passages = [Hit(chunk, 0.3, document=chunk) for chunk in range(3)], cast("Any", SimpleNamespace(of=of))
    assert [hit.chunk for hit in scope.looked_up("harbour corner", hits, passages)] == [1, 0, 2]
    assert looked_up == [0, 1]  # both words
    assert scope.looked_up("Which pump caused leaks of the harbour corner in heavy rain?", hits, passages) == hits
