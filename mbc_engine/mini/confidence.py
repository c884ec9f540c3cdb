"""How likely an answer is right: a logistic regression on what is known of it and of its rivals.

The best sign that the passages hold the answer at all is the reader's margin over "not here". It is a weaker sign of
which of several likely answers is right. For that, all likely spans of all passages vote, weighted by their passages'
shares and by their F1 against the answer (expected F1, as in minimum Bayes risk decoding; Kumar and Byrne, 2004). And if
the search prefers no passage, the one that answers is probably not there.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Final, Literal

from mbc_engine.bank.words import stems_of
from mbc_engine.config import AnswerConfidence, Feature
from mbc_engine.metrics import compare
from mbc_engine.mini.kinds.passages import table_rows
from mbc_engine.mini.span_reader import Span
from mbc_engine.mini.word_matching import EXCLUSIVE, POSSESSIVE, RELATIVES
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text import split_sentences
from mbc_engine.text.language import AUXILIARIES, ENGLISH

# The weight of a passage's log share relative to its spans' margins; chosen on held-out questions.
PRIOR_WEIGHT: Final = 0.35
_HIGH: Final = 0.8
_LARGEST_MARGIN: Final = 16.0
_LEAST_FOUND: Final = -2.0
_LARGEST_EXPONENT: Final = 30.0
_SMALLEST: Final = 1e-4


def probability(values: Mapping[Feature, float], settings: AnswerConfidence) -> float:
    """How likely an answer with these features is right."""
    odds = settings.intercept + sum(weight * values[name] for name, weight in settings.weights.items())
    return 0.5 + 0.5 * math.tanh(0.5 * odds)  # the sigmoid, without overflow


def features(
    question: str,
    passages: Sequence[str],
    known: str,
    spans: Sequence[Span | None],
    shares: Sequence[float],
    best: int,
) -> dict[Feature, float]:
    """The regression's inputs for the best span of passage `best`.

    Args:
        question: as it was asked.
        passages: those that were read.
        known: what the document of passage `best` says of it, and its date.
        spans: the best of each passage.
        shares: the probabilities that the question is about each.
        best: the passage with the answer.
    """
    answer, passage = spans[best], passages[best]
    assert answer is not None
    margin, votes = _of_reader(spans, shares, best)
    with_owners, question = question, POSSESSIVE.sub("", question)
    sentence, quoted = sentence_around(passage, answer.start, answer.end), " ".join(answer.text.split())
    asked, there = content_stems(question), stems_of(sentence)
    is_plain = _CAPITALISED.search(question) is None
    names = asked & _names_in(question, passages if is_plain else [passage])
    names |= _owners(with_owners) if is_plain else set()
    labels = _labels(passages) if table_rows(sentence) else _labels_of_others(passage, answer.start)
    names |= asked & labels
    numbers = stems_of(*_NUMBER.findall(question))
    absent = {
        stem
        for stem in asked - stems_of(known) - there
        if stem in names | numbers or not get_close_matches(stem, there, 1, _LIKENESS)
    }
    lacking = absent - stems_of(passage)
    foremost = max(range(len(shares)), key=shares.__getitem__)
    is_found = shares[best] >= _HARDLY * shares[foremost] or not is_plain
    if not is_found:
        names |= lacking & stems_of(passages[foremost])
    attributes = {
        stem for match in _ATTRIBUTE.finditer(with_owners) for stem in stems_of(match[1] or match[2] or match[3])
    }
    elsewhere = (absent - lacking) & names
    found = [match[2] for match in _OBJECT.finditer(question) if not stems_of(match[1]) & _VAGUE]
    objects = stems_of(" ".join([*found, *_DONE_TO.findall(question)]))
    said = sentence.replace(quoted, "", 1)
    shapes = {_shape(stem) for stem in there if _CODE.fullmatch(stem)}
    misplaced = _misplaced(question, passage, answer.start, said, elsewhere, names) | elsewhere & labels
    misplaced |= {stem for stem in absent if _CODE.fullmatch(stem) and _shape(stem) in shapes}
    suspects: dict[Feature, set[str]] = {
        "overlooked": lacking & (names | numbers | objects | (_other_kinds(question, sentence) if labels else set())),
        "misplaced": set() if attributes & there & RELATIVES else misplaced,  # Leif's sister, and his sister Dagny
        "attribute": absent & attributes - _VAGUE,
        "opposite": {stem for group in EXCLUSIVE if there & group - asked for stem in absent & group},
    }
    if "how old" in question.lower() and _YEAR.fullmatch(quoted):
        suspects["opposite"] = {"old"}
    rest = asked - _VAGUE - set().union(*suspects.values(), *map(stems_of, _HOW.findall(question)))
    closeness = (len(rest - absent) / len(rest)) ** 2 if rest else 0.25
    surprise = max(0.0 if is_found else 1.0, margin)
    signs = {name: surprise * closeness * bool(stems) for name, stems in suspects.items()}
    return {"margin": margin, "votes": votes, "found": max(log_share(max(shares)), _LEAST_FOUND), **signs}


# How alike a word is that is only misspelled; with this, no letter may be exchanged in a word of up to eight.
_LIKENESS: Final = 0.88
# A capitalised word that does not begin a sentence, unless another follows it; and all in a row.
_NAME: Final = re.compile(r"(?<=[\w,;:)'\u2019] )[A-Z][\w-]*|\b[A-Z][\w-]*(?= [A-Z])")
_CAPITALISED: Final = re.compile("[A-Z][a-z]")
_NAMES: Final = re.compile(r"\b[A-Z][\w-]*(?: [A-Z][\w-]*)*")
_NUMBER: Final = re.compile(
    r"(?<![^\W\d_])[^\W\d_]+\d\w*|\d+[a-h]\b|\d[\d.,:]*\d|\d", re.IGNORECASE
)  # F31, 8b, 1,240, 7
_LOWER: Final = re.compile(r"\b[a-z][\w-]*")
_OWNER: Final = re.compile(r"\b(\w+)['\u2019]s? \w")
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_HOW: Final = re.compile(r"\bhow (\w+)", re.IGNORECASE)  # many, much, long
_PAIR: Final = re.compile(r"(?<!\w)(?!(?:many|more|most|much) )(?=([^\W\d_]{3,}) ([^\W\d_]{3,}))", re.IGNORECASE)
_CODE: Final = re.compile(r"[^\W\d_]{1,3}\d+|\d+[^\W\d_]")  # W3, 7b
_PRONOUN: Final = re.compile(r"(?:she|he|her|his|it|its)\b", re.IGNORECASE)
_HARDLY: Final = 0.1
_YEAR: Final = re.compile(r"\D*[12]\d{3}\D*")
# What is asked for of or for somebody or something: the rent of the boathouse, Leif's sister; not the kind of thing itself.
_ATTRIBUTE: Final = re.compile(
    r"(?<!what )(?<!which )(?<!many )(?<![\w-])([\w-]++) of \w|\w['\u2019]s? ([\w-]+)|(?:^|\b(?:the|an?|my|our) )([\w-]++) for \w",
    re.IGNORECASE,
)
_ENTRY: Final = re.compile(r"^[ \t*\u2022-]*(?P<label>[^:\n]{2,40}): \S.*$", re.MULTILINE)
# Somebody, and what they do.
_DOES: Final = re.compile(
    r"(?P<who>\b[A-Z][\w-]*(?: [A-Z][\w-]*)*) (?:(?:will|has|had|have|was|is|are|were|be|been|also|then|first|never|not) )*"
    r"(?P<does>[a-z]\w{2,})"
)
_DONE_TO: Final = re.compile(
    rf"^who (?!(?:{'|'.join(AUXILIARIES)}|else) )\w+ (?:(?:the|an?|my|our|his|her|their) |(?![\w-]+ing\b))([\w-]{{3,}})",
    re.IGNORECASE,
)
# What something is of, for or about: the warranty of the dryer.
_OBJECT: Final = re.compile(
    r"\b([\w-]+) (?:of|for|on|about|against) (?:(?:the|an?|my|our|his|her|their) )?([\w-]{3,})", re.IGNORECASE
)
_VAGUE: Final = stems_of(
    "name number type kind sort part member one some all most half percent percentage amount group ahead front out "
    "because instead top nationality profession occupation job title age date year day place location colour color "
    "purpose result cause reason origin meaning role position size period duration"
)


def _names_in(question: str, passages: Sequence[str]) -> set[str]:
    """The stems of a question's names; in one without capital letters, of what is always a name in the passages."""
    names = _NAME.findall(question) if _CAPITALISED.search(question) else []
    if names:
        return stems_of(" ".join(names))
    texts = "\n".join(passages)
    return stems_of(" ".join(_NAME.findall(texts))) - stems_of(" ".join(_LOWER.findall(texts)))


def _owners(question: str) -> set[str]:
    """The stems of those whose something a question without capital letters asks for: gavin's phone number."""
    return content_stems(" ".join(_OWNER.findall(question)))


def _labels_of_others(passage: str, start: int) -> set[str]:
    """The stems of what begins the other lines, if the answer's begins so too: "Music: Ann", but no speech."""
    lines = [(match["label"], match.span()) for match in _ENTRY.finditer(passage)]
    own = [label for label, (first, last) in lines if first <= start < last]
    if not own or len({label for label, _ in lines}) < len(lines):
        return set()
    return stems_of(*(label for label, _ in lines if label not in own))


def _shape(code: str) -> str:
    return re.sub(r"\d+", "0", code)


def _other_kinds(question: str, row: str) -> set[str]:
    """The stems of words of which a row of a table has another before the same noun: beech board, but pine board."""
    asked = stems_of(question)
    there = {noun: kind for kind, noun in _pairs(row) if not kind & asked}
    return {stem for kind, noun in _pairs(question) if noun in there for stem in kind}


def _pairs(text: str) -> list[tuple[frozenset[str], frozenset[str]]]:
    """The stems of words that stand beside each other, in pairs."""
    return [(frozenset(stems_of(first)), frozenset(stems_of(second))) for first, second in _PAIR.findall(text)]


def _labels(passages: Sequence[str]) -> set[str]:
    """The stems of what the rows of tables are about, by their first cells with words."""
    rows = chain.from_iterable(map(table_rows, passages))
    cells = (next((value for _, value in row if _WORD.search(value)), "") for row in rows)
    return stems_of(*cells)


def _misplaced(
    question: str, passage: str, start: int, sentence: str, elsewhere: set[str], names: set[str]
) -> set[str]:
    """The stems of names that a passage has `elsewhere` than in the sentence of the answer, which is about another name.

    The answer begins at `start`. A sentence about "her" is about another if the paragraphs before it are.

    A sentence may go without the name of what the passage begins with, or with a part of it: Atwood for Margaret Atwood,
    but not Dagny Holm for Leif Holm. Nor does a name count whose sentence says nothing of what is asked.
    """
    others = [stems_of(name) for name in _NAMES.findall(sentence)]
    asked = stems_of(question)
    if not elsewhere or any(name & names and name - asked for name in others):
        return elsewhere
    if not content_stems(" ".join(_NAME.findall(f". {sentence}"))) - asked:
        return elsewhere if _PRONOUN.match(sentence) and _is_after_others(passage[:start], names) else set()
    does = {
        stem
        for match in _DOES.finditer(question)
        if stems_of(match["who"]) & elsewhere
        for stem in content_stems(match["does"])
    }
    if any(
        does & stems_of(match["does"]) and match["who"].lower() not in ENGLISH for match in _DOES.finditer(sentence)
    ):
        return elsewhere  # when Bo retires, of a sentence that says when Ann does
    phrases = (stems_of(name) & asked for name in _NAMES.findall(passage if question.islower() else question))
    shortened = {stem for name in phrases if name & stems_of(sentence) for stem in name}
    begun, *further = (stems_of(passage[first:last]) for first, last in split_sentences(passage))
    alike = {stem for stems in further if stems & content_stems(question) - names for stem in stems}
    return elsewhere & alike - shortened - begun


def _is_after_others(before: str, names: set[str]) -> bool:
    """Whether the last paragraph with a name is about none of these: not Ida Holm, of Frank Holm."""
    for paragraph in reversed(before.split("\n\n")):
        found = [stems_of(name) for name in _NAMES.findall(paragraph)]
        if any(name <= names or names <= name for name in found):
            return False
        if _NAME.search(paragraph):
            return True
    return False


def _of_reader(spans: Sequence[Span | None], shares: Sequence[float], best: int) -> tuple[float, float]:
    """An answer's margin over "not here", clamped to ±16, and the log-odds of its share of all spans' votes."""
    answer = spans[best]
    assert answer is not None
    total = behind = 0.0
    for span, share in zip(spans, shares, strict=True):
        if span is None:
            continue
        none = span.log_probability - span.margin
        for text, log in span.rivals:
            vote = math.exp(min(_LARGEST_EXPONENT, log - none + PRIOR_WEIGHT * log_share(share)))
            total += vote
            behind += vote * compare(text, [answer.text]).f1
    margin = min(max(answer.margin, -_LARGEST_MARGIN), _LARGEST_MARGIN)
    likely = min(max(behind / max(total, sys.float_info.min), _SMALLEST), 1 - _SMALLEST)
    return margin, math.log(likely / (1 - likely))


def label_of(probability: float, sure: float) -> Literal["high", "medium", "low"]:
    """A word for a probability; what is given without a doubt, from `sure` on, is medium at least."""
    return "low" if probability < sure else "medium" if probability < _HIGH else "high"


def log_share(share: float) -> float:
    """The logarithm of a share, finite also for none."""
    return math.log(max(share, sys.float_info.min))
