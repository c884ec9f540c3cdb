"""Training data for the reader of `mini`: questions with a passage that holds the answer, or seems to.

Rows of the QA sets are tokenised once. A share of the questions cannot be answered from their passage: it is one of
those whose sentence vectors are nearest to the question's, or the right one without the sentences that hold the answer.
Their target is "none". All sampling is seeded.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from encoder import sentence_vectors
from everyday import Pair
from options import qa_rows
from safetensors.numpy import load_file, save_file
from transformers import PreTrainedTokenizerBase

from mbc_engine.lm.encoders import Encoder
from mbc_engine.mini.span_reader import Encoding, SpanReader
from mbc_engine.text import split_sentences
from mbc_engine.text.language import canonical_question

Golds = tuple[tuple[int, int], ...]

# One in this many titles of SQuAD, and paragraphs of the others, is held out for calibration.
_HELD_OUT = 16
# Minimum tokens of a passage whose sentences with the answer were removed.
_FEWEST_LEFT = 24
_LONGEST_QUESTION = 64
# Probability that a passage is as short as a note: one to three sentences.
_SHORT, _MOST_SENTENCES = 0.25, 3
# Probabilities of a question without articles, as keywords, and with a letter missing.
_NO_ARTICLES, _KEY_WORDS, _TYPO = 0.15, 0.12, 0.08
_ARTICLES = re.compile(r"\b(?:an?|the) ", re.IGNORECASE)
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on at to for by from with as and or that this these those it its his her their there what which "
        "who whom whose when where why how do does did is are was were be been has have had can could would will",
    )
)


@dataclass(frozen=True)
class PassageWindow:
    """Tokens of a passage, without special ones, and their (start, end) in characters."""

    ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Row:
    """A question of a QA set.

    Attributes:
        source: the set.
        text: its paragraph.
        question: its text.
        answers: one or more; empty if the text has no answer.
    """

    source: str
    title: str
    text: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """A question with the passage, or a part of it, that it is read with.

    Attributes:
        encoding: both.
        golds: first and last token, of the passage, of each occurrence of the answer; empty if there is no answer.
    """

    encoding: Encoding
    golds: Golds

    @property
    def length(self) -> int:
        """Tokens, including special ones."""
        return len(self.encoding.ids)


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum.

    Attributes:
        sets: names of QA sets, repeated for repeated reading.
        longest: maximum tokens of a passage; longer ones are cut at random around the answer.
        share: of the questions of the sets.
    """

    sets: tuple[str, ...]
    longest: int
    share: float = 1.0


def read_rows(data: Path, name: str) -> list[Row]:
    """The questions of a set whose answer occurs in the text, and those without an answer."""
    found = qa_rows(data, name)
    rows = [Row(name, row["title"], row["text"], row["question"], tuple(row["answers"])) for row in found]
    return [row for row in rows if not row.answers or (shortest(row).strip() and shortest(row) in row.text)]


def shortest(row: Row) -> str:
    """The answer to train on: the one that answers are scored against."""
    return min(row.answers, key=len)


def as_typed(question: str, random: np.random.Generator) -> str:
    """The canonical form of a question, or of one as people type it into a search box."""
    drawn = random.random()
    if drawn < _NO_ARTICLES:
        question = _ARTICLES.sub("", question)
    elif (drawn := drawn - _NO_ARTICLES) < _KEY_WORDS:
        words = [word for word in canonical_question(question)[:-1].split() if word not in _FUNCTION_WORDS]
        question = " ".join(words) if len(words) > 1 else question
    elif drawn - _KEY_WORDS < _TYPO:
        words = question.split()
        place = max(range(len(words)), key=lambda at: (len(words[at]) > 4, random.random()))
        letter = int(random.integers(1, max(2, len(words[place]))))
        words[place] = words[place][:letter] + words[place][letter + 1 :]
        question = " ".join(words)
    return canonical_question(question)


def is_held_out(row: Row) -> bool:
    """Whether a row is held out for calibration; articles and paragraphs are never split."""
    group = (row.title if row.source.startswith("squad") else "") or row.text
    return hashlib.sha256(group.encode()).digest()[0] % _HELD_OUT == 0


class Tokens:
    """Tokens of texts, each tokenised once."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]) -> None:
        self._tokenizer = tokenizer
        self.passages = sorted({row.text for row in rows})
        self.numbers = {text: number for number, text in enumerate(self.passages)}
        encoded = tokenizer(self.passages, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        self.windows = [PassageWindow(ids, offsets) for ids, offsets in pairs]

    def questions(self, several: Sequence[str]) -> list[Sequence[int]]:
        """Tokens of questions; very long ones are truncated."""
        ids = self._tokenizer(list(several), add_special_tokens=False, verbose=False)["input_ids"] if several else []
        return [tokens[:_LONGEST_QUESTION] for tokens in ids]

    def encoding(self, question: Sequence[int], passage: Sequence[int]) -> Encoding:
        return Encoding.of(question, (), passage, self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)

    def golds(self, row: Row) -> Golds:
        """Token spans of the answer's occurrences, only those on word boundaries if there are any."""
        if not row.answers:
            return ()
        answer, text = shortest(row), row.text
        places = [found.span() for found in re.finditer(re.escape(answer.strip()), text)]
        bounded = [place for place in places if not _inside_word(text, *place)]
        offsets = self.windows[self.numbers[text]].offsets
        starts = [start for start, _ in offsets]
        # A character belongs to the last token that starts at or before it.
        return tuple((bisect_right(starts, a) - 1, bisect_right(starts, b - 1) - 1) for a, b in bounded or places)


def _inside_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return (before.isalnum() and text[start].isalnum()) or (after.isalnum() and text[end - 1].isalnum())


def cut(window: PassageWindow, golds: Golds, longest: int, random: np.random.Generator) -> tuple[PassageWindow, Golds]:
    """A random part of a passage, of at most `longest` tokens, around one occurrence of the answer."""
    extra = len(window.ids) - longest
    if extra <= 0:
        return window, golds
    low, high = 0, extra
    if golds:
        first, last = golds[random.integers(len(golds))]
        low, high = max(0, min(last + 1 - longest, extra)), max(0, min(first, extra))
    start = int(random.integers(min(low, high), max(low, high) + 1))
    part = PassageWindow(window.ids[start : start + longest], window.offsets[start : start + longest])
    return part, tuple((a - start, b - start) for a, b in golds if a >= start and b < start + longest)


def some_sentences(
    text: str, window: PassageWindow, golds: Golds, random: np.random.Generator
) -> tuple[PassageWindow, Golds]:
    """One to three neighbouring sentences of a passage, including one occurrence of the answer."""
    sentences = split_sentences(text)
    first, last = golds[random.integers(len(golds))] if golds else (random.integers(len(window.ids)),) * 2
    held = [
        place
        for place, (start, end) in enumerate(sentences)
        if start < window.offsets[last][1] and end > window.offsets[first][0]
    ]
    more = int(random.integers(max(1, _MOST_SENTENCES + 1 - len(held))))
    before = int(random.integers(more + 1))
    start = sentences[max(0, held[0] - before)][0]
    end = sentences[min(len(sentences) - 1, held[-1] + more - before)][1]
    places = [place for place, (a, b) in enumerate(window.offsets) if start <= a and b <= end]
    low, high = places[0], places[-1] + 1
    part = PassageWindow(window.ids[low:high], window.offsets[low:high])
    return part, tuple((a - low, b - low) for a, b in golds if a >= low and b < high)


def without_answer(row: Row, window: PassageWindow) -> PassageWindow | None:
    """A passage without the sentences that overlap an answer; None if another holds it too, or too little is left."""
    golds = [answer.lower() for answer in row.answers]
    text = row.text.lower()
    places = [found.span() for answer in golds for found in re.finditer(re.escape(answer), text)]
    kept = [
        (start, end)
        for start, end in split_sentences(row.text)
        if not any(first < end and last > start for first, last in places)
    ]
    left = "".join(row.text[start:end] for start, end in kept).lower()
    if any(answer in left for answer in golds):
        return None
    chosen = [
        place
        for place, (first, last) in enumerate(window.offsets)
        if any(start <= first and last <= end for start, end in kept)
    ]
    if not _FEWEST_LEFT <= len(chosen) < len(window.ids):
        return None
    return PassageWindow([window.ids[place] for place in chosen], [window.offsets[place] for place in chosen])


class WrongPassages:
    """Passages that seem to answer a question but do not."""

    def __init__(
        self,
        encoder: Encoder,
        tokens: Tokens,
        rows: Sequence[Row],
        cache: Path,
    ) -> None:
        self._encoder, self._tokens = encoder, tokens
        self._numbers = {
            source: np.array(sorted({tokens.numbers[row.text] for row in rows if row.source == source}))
            for source in sorted({row.source for row in rows})
        }
        if cache.exists():
            self._vectors = load_file(cache)["passages"]
        else:
            self._vectors = self._vectors_of(tokens.passages)
            save_file({"passages": self._vectors}, cache)

    def near(self, rows: Sequence[Row], count: int = 8) -> list[list[int]]:
        """For each question, the nearest passages of its set that hold none of its answers, nearest first."""
        vectors = self._vectors_of([row.question for row in rows])
        found = []
        for row, vector in zip(rows, vectors, strict=True):
            numbers = self._numbers[row.source]
            likely = numbers[np.argsort(-(self._vectors[numbers] @ vector))[: 4 * count]]
            found.append([int(number) for number in likely if self._is_wrong(row, int(number))][:count])
        return found

    def _vectors_of(self, texts: Sequence[str]) -> np.ndarray:
        encoded = self._encoder.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return sentence_vectors(self._encoder.model, encoded, self._encoder.tokenizer)

    def _is_wrong(self, row: Row, number: int) -> bool:
        text = self._tokens.passages[number].lower()
        return all(answer.lower() not in text for answer in row.answers)


def examples(
    rows: Sequence[Row],
    tokens: Tokens,
    wrong: WrongPassages,
    *,
    longest: int,
    longest_answer: int,
    share: float,
    seed: int,
) -> list[Example]:
    """Questions in a random order, a share of them with a passage that does not answer them.

    Some are as people type them in haste: without articles, as keywords, with a letter missing. A quarter of the
    passages are as short as a note.

    Args:
        rows: the questions.
        tokens: theirs.
        wrong: the source of wrong passages.
        longest: maximum tokens of a passage.
        longest_answer: maximum tokens of an answer; questions with only longer ones are left out.
        share: of questions without an answer, half of them with the right passage minus the answer's sentences.
        seed: for all sampling.
    """
    random = np.random.default_rng(seed)
    drawn = random.random(len(rows))
    cuts = [
        without_answer(row, tokens.windows[tokens.numbers[row.text]]) if chance < share / 2 and row.answers else None
        for row, chance in zip(rows, drawn, strict=True)
    ]
    is_wrong = [
        cut is None and chance < share and bool(row.answers) for row, chance, cut in zip(rows, drawn, cuts, strict=True)
    ]
    near = iter(wrong.near([row for row, asked in zip(rows, is_wrong, strict=True) if asked]))
    questions = tokens.questions([as_typed(row.question, random) for row in rows])
    result = []
    for row, question, asked, left in zip(rows, questions, is_wrong, cuts, strict=True):
        candidates = next(near) if asked else []
        golds: Golds = ()
        if left is not None:
            window = left
        else:
            number = candidates[random.integers(len(candidates))] if candidates else tokens.numbers[row.text]
            window = tokens.windows[number]
            if not candidates:
                golds = tuple(gold for gold in tokens.golds(row) if gold[1] - gold[0] < longest_answer)
                if row.answers and not golds:
                    continue
            if random.random() < _SHORT:
                window, golds = some_sentences(tokens.passages[number], window, golds, random)
        window, golds = cut(window, golds, longest, random)
        result.append(Example(tokens.encoding(question, window.ids), golds))
    return [result[place] for place in random.permutation(len(result))]


def everyday_examples(pairs: Iterable[Pair], reader: SpanReader, *, longest_answer: int) -> list[Example]:
    """The questions of `everyday.py`, each with the window of its passage that has the answer, or the first."""
    result = []
    for pair in pairs:
        for encoding, offsets in reader.encodings(pair.question, pair.text, pair.context):
            golds: Golds = ()
            if pair.gold:
                start, end = pair.gold
                inside = [place for place, (a, b) in enumerate(offsets) if a < end and b > start]
                if not inside or offsets[inside[0]][0] > start or offsets[inside[-1]][1] < end:
                    continue
                golds = ((inside[0], inside[-1]),)
            if not golds or golds[0][1] - golds[0][0] < longest_answer:
                result.append(Example(encoding, golds))
            break
    return result


def shuffled(items: Sequence[Example], seed: int) -> list[Example]:
    return [items[place] for place in np.random.default_rng(seed).permutation(len(items))]


def batches(items: Sequence[Example], most: int, seed: int) -> Iterator[list[Example]]:
    """Batches of examples of similar length, with at most `most` tokens including padding, in a random order."""
    random = np.random.default_rng(seed)
    for pool in (items[start : start + 2048] for start in range(0, len(items), 2048)):
        cuts: list[list[Example]] = [[]]
        for item in sorted(pool, key=lambda item: item.length):
            if cuts[-1] and (len(cuts[-1]) + 1) * item.length > most:
                cuts.append([])
            cuts[-1].append(item)
        yield from (cuts[place] for place in random.permutation(len(cuts)))
