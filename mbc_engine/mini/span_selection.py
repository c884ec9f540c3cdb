"""The likeliest answer among the spans of the chunks that were read.

Of several versions of a document, or documents that say the same of several times, the valid and latest one is believed.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.config import AnswerConfidence
from mbc_engine.metrics import compare
from mbc_engine.mini.confidence import PRIOR_WEIGHT, features, log_share, probability
from mbc_engine.mini.penalties import has_version, is_earlier_version, is_superseded
from mbc_engine.mini.span_reader import Span
from mbc_engine.mini.word_matching import missing
from mbc_engine.model import DraftItem
from mbc_engine.ranking import Hit
from mbc_engine.sources import Known, content_stems, sentence_around
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.dates import asks_when, period_in

# A year, with month and day if these follow.
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?\b")
_DIGIT: Final = re.compile(r"\d")
_CLOSE: Final = 1.0  # how much less a runner-up's score may be
_LEAST_VALID: Final = -1.0  # the lowest margin with which a valid version replaces a superseded one
_ANOTHER_SHARE: Final = 0.02  # of the search, from which on a later passage is looked for
_AS_SURE: Final = 4.0  # what the margin of a later answer may be lower by


class ReadChunk(NamedTuple):
    """A chunk that was read.

    Attributes:
        known: what is known of it from its document, whether the reader saw it or not.
        share: how likely the question is about it, see `priors`.
        span: the likeliest one; None if it has no tokens.
    """

    hit: Hit
    text: str
    known: Known
    share: float
    span: Span | None

    @property
    def sentence(self) -> str:
        """The sentence of the span, empty without one."""
        return sentence_around(self.text, self.span.start, self.span.end) if self.span else ""


@dataclass(frozen=True)
class SpanAnswer:
    """The likeliest span of `read_chunks`, of which `best.passage` is an index, and how likely it is right."""

    best: Span | None
    probability: float
    read_chunks: tuple[ReadChunk, ...]


def likeliest(question: str, read: tuple[ReadChunk, ...], confidence: AnswerConfidence) -> SpanAnswer:
    """The likeliest answer to a question in the chunks that were read, and how likely it is right."""
    spans, shares = [each.span for each in read], [each.share for each in read]
    old = _old_versions(question, read)
    best = _latest(question, read, choose(spans, shares), old)
    if best is not None and best not in old:  # then old versions have no say
        spans = [None if at in old else span for at, span in enumerate(spans)]
    span = None if best is None else spans[best]
    if best is None or span is None:
        return SpanAnswer(None, 0.0, read)
    known, texts = read[best].known, [each.text for each in read]
    values = features(question, texts, f"{known.context} {known.date or ''}", spans, shares, best)
    span = _whole(
        replace(span, passage=best), texts[best], asks_year=re.search(r"\byear\b", question, re.IGNORECASE) is not None
    )
    return SpanAnswer(span, probability(values, confidence), read)


def choose(spans: Sequence[Span | None], shares: Sequence[float]) -> int | None:
    """The passage whose best span has the largest sum of margin and prior; the first wins a tie."""
    return next(iter(_by_score(spans, shares)), None)


def runner_up(spans: Sequence[Span | None], shares: Sequence[float]) -> int | None:
    """The passage with another answer that is nearly as likely as the one chosen."""
    scores = _by_score(spans, shares)
    best = spans[next(iter(scores))] if scores else None
    for passage, score in scores.items():
        other = spans[passage]
        if best and other and score > max(scores.values()) - _CLOSE and not compare(other.text, [best.text]).f1:
            return passage
    return None


def _by_score(spans: Sequence[Span | None], shares: Sequence[float]) -> dict[int, float]:
    """The sum of margin and prior of each passage, the largest first."""
    scores = {
        passage: span.margin + PRIOR_WEIGHT * log_share(share)
        for passage, (span, share) in enumerate(zip(spans, shares, strict=True))
        if span is not None
    }
    return dict(sorted(scores.items(), key=lambda scored: -scored[1]))


# What a number is cut from: a time, an amount, a date; and groups of digits that are one number, as of a phone.
_REST: Final = re.compile(r"(?:[.,:]\d+)+|(?<=\d{4})-\d\d(?:-\d\d)?(?!\d)")
_FIRST_PART: Final = re.compile(r"(?<![\w.,:])(?:\d+[.,:])+\Z")
_YEAR_OR_MONTH: Final = re.compile(r"(?<!\w)\d{4}-(?:\d\d-)?\Z")
_TWO_DIGITS: Final = re.compile(r"\d\d(?!\d)")
_GROUPS: Final = re.compile(r"\+?\d+(?: \d+)+")
_LONGEST_NUMBER: Final = 30


def _whole(span: Span, text: str, *, asks_year: bool) -> Span:
    """The span with all of the numbers at its ends; unless that is the year which was asked for."""
    start, end = span.start, span.end
    if text[end - 1 : end].isdigit() and not asks_year and (rest := _REST.match(text, end)):
        end = rest.end()
    before = max(0, start - _LONGEST_NUMBER)
    parts = (_FIRST_PART, *([_YEAR_OR_MONTH] if _TWO_DIGITS.match(text, start) else []))
    firsts = (part.search(text[before:start]) for part in parts if text[start : start + 1].isdigit())
    start = next((before + first.start() for first in firsts if first), start)
    if _GROUPS.fullmatch(text, start, end):
        around = _GROUPS.finditer(text, text.rfind("\n", 0, start) + 1, end + _LONGEST_NUMBER)
        start, end = next(groups.span() for groups in around if groups.end() >= end)
    return replace(span, text=text[start:end], start=start, end=end)


def _old_versions(question: str, read: Sequence[ReadChunk]) -> set[int]:
    """The chunks of old versions and drafts, and of which a later version was read too."""
    contexts = [each.known.context for each in read]
    return {
        at
        for at, context in enumerate(contexts)
        if is_superseded(question, context) or any(is_earlier_version(question, context, other) for other in contexts)
    }


def _latest(question: str, read: Sequence[ReadChunk], best: int | None, old: Collection[int]) -> int | None:
    """The passage to believe if several answer: of no old version or draft, and of the latest time.

    It says what the best one does but for numbers, or has all words of the question, as the best one.
    """
    found = None if best is None else read[best].span
    if best is None or found is None:
        return best
    margins = {at: each.span.margin for at, each in enumerate(read) if each.span}
    if best in old:
        valid = [at for at in margins if at not in old]
        latest = max(valid, key=margins.__getitem__, default=best)
        return latest if margins[latest] > max(_LEAST_VALID, found.margin - _AS_SURE) else best
    if _YEAR.search(question):
        return best
    nearly = {at: read[at] for at, margin in margins.items() if margin > max(0.0, found.margin - _AS_SURE)}
    said = _said(read[best])
    years = {
        at: max(_YEAR.findall(each.known.context), default="") for at, each in nearly.items() if _said(each) == said
    }
    if len({*years.values()}) > 1 and min(years.values()):
        return max(years, key=lambda at: (years[at], margins[at]))
    wanted, is_number = content_stems(question), _DIGIT.search(found.text) is not None
    days = {
        at: period.span[0]
        for at, each in nearly.items()
        if each.span and (_DIGIT.search(each.span.text) is not None) == is_number
        if (period := period_in(each.known.context))
        if not missing(wanted, f"{each.known.context} {each.sentence}")
    }
    return max(days, key=lambda at: (days[at], at == best)) if best in days and not asks_when(question) else best


def may_be_outdated(question: str, answer: SpanAnswer, hits: Sequence[Hit]) -> bool:
    """Whether the answer is of an old version; or the only passage read of some year, and another one not unlikely."""
    context = "" if answer.best is None else answer.read_chunks[answer.best.passage].known.context
    if is_superseded(question, context) or (has_version(context) and len(answer.read_chunks) == 1):
        return True
    is_alone = len(answer.read_chunks) == 1 < len(hits) and hits[1].share > _ANOTHER_SHARE
    return is_alone and not _YEAR.search(question) and bool(_YEAR.search(answer.read_chunks[0].known.context))


def _said(read: ReadChunk) -> set[str] | None:
    """The words of a span's sentence without those of the span, and without numbers."""
    if read.span is None:
        return None
    return {stem for stem in stems_of(read.sentence) - stems_of(read.span.text) if stem.isalpha()}


def two_likeliest(answer: SpanAnswer) -> tuple[DraftItem, ...]:
    """An answer and the runner-up, if that is nearly as likely; else none."""
    read = answer.read_chunks
    other = runner_up([each.span for each in read], [each.share for each in read])
    if answer.best is None or other is None:
        return ()
    return tuple(
        DraftItem(on_one_line(each.span.text), each.hit, each.sentence)
        for each in (read[answer.best.passage], read[other])
        if each.span is not None
    )


def priors(hits: Sequence[Hit]) -> dict[int, float]:
    """How likely a question is about each chunk: half its own share, half that of all chunks of its document."""
    totals: Counter[int] = Counter()
    for hit in hits:
        totals[-1 - hit.chunk if hit.document is None else hit.document] += hit.share  # type: ignore[assignment]
    return {
        hit.chunk: math.sqrt(hit.share * min(1.0, totals[-1 - hit.chunk if hit.document is None else hit.document]))
        for hit in hits
    }
