"""Yes or no, if a sentence says so beyond doubt; else that sentence."""

import math
import re
from collections.abc import Sequence
from typing import Final, Literal

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.forms import ANY_AUXILIARY
from mbc_engine.mini.kinds.passages import NAMED, Item, Passage, Reply, sentences_of, topic_of
from mbc_engine.mini.penalties import is_of_another, is_superseded
from mbc_engine.mini.word_matching import NEGATION, has_stem, missing
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text.language import canonical_question

_PRONOUN: Final = re.compile(r"(?:he|she|it|they|this|these|its|her|his|their)\b", re.IGNORECASE)
_HEDGE: Final = re.compile(
    r"\b(?:only|unless|except|without|if|may|might|could|would|should|used to|plan(?:s|ned)?|hopes?|hoped|wants?|wanted|ideas?|thought|"
    r"consider\w*|suggest\w*|propos\w*|almost|nearly|refus\w+|den(?:y|ies|ied)|fail\w*|instead|rumou?r\w*|alleged\w*|claim\w*|said|says|whether|until)\b",
    re.IGNORECASE,
)
_NOT: Final = re.compile(rf"{NEGATION.pattern}|\b(?:forbidden|prohibited)\b", re.IGNORECASE)
_CLAUSE: Final = re.compile(
    r"[,;:()\u2013\u2014]|[.!?] |\b(?:and|but|or|although|though|while|who|which|that|because|since|where|when|after|before)\b"
)
_PAST, _PRESENT = re.compile(r"\b(?:was|were|had|did)\b"), re.compile(r"^(?:am|is|are|do|does|has|have|can|may)\b")
_DONE: Final = re.compile(r"\b(?:\w+ed|was|were|had|did|have|has)\b", re.IGNORECASE)
_PLACED: Final = re.compile(r"(?:at|by|during|for|from|in|near|on|since|with)\b", re.IGNORECASE)
_VERB: Final = re.compile(rf"{ANY_AUXILIARY}|been|be", re.IGNORECASE)
_ENOUGH: Final = 2 / 3  # of the words of a question
_FEWEST_ASKED: Final = 2  # "open windows" does not answer "are we open?"
_ALLOWING: Final = stems_of("allowed permitted possible okay able take bring use")
# An answer to a question in a text, and a cell of a table.
_SAID: Final = re.compile(r"\?\W+(?:[^?.:]{1,40}: )?(yes|no)\b", re.IGNORECASE)
_CELL: Final = re.compile(r"(?:^|; )(?P<column>[^:;]+): (?P<value>yes|no)(?=;|$)", re.IGNORECASE)
_UNTICKED_BOX: Final = re.compile(r"\W*(?:\[ \]|\u2610)")


def yes_or_no(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """Yes or no if a clause has all that is asked, in the same order and beyond doubt, or if it was asked there.

    Else the sentence that has it; and if none has all, that with what the reader found.
    """
    wanted = content_stems(question) - _ALLOWING or content_stems(question)
    _, names = topic_of(question)
    is_other = [is_of_another(question, passage.said, passage.date) for passage in passages]
    sentences = [one for one in sentences_of(passages, joins=True) if not is_other[one.passage]]
    lacking = [missing(wanted, sentence.text) for sentence in sentences]
    found: list[tuple[float, int, set[str]]] = []
    for at, sentence in enumerate(sentences):
        is_after = at and sentences[at - 1].passage == sentence.passage and "?" not in sentence.text
        before = sentences[at - 1].text if is_after else ""
        about = missing(lacking[at], f"{passages[sentence.passage].context} {before}")
        shared = sum(_weight(stem, lacking) for stem in wanted - lacking[at])
        known = sum(_weight(stem, lacking) for stem in lacking[at] - about)
        if shared:
            less = len(names & about) + is_superseded(question, passages[sentence.passage].context)
            found.append((shared + 0.5 * known - less, -at, about))
    if not found or len(about := max(found)[2]) > len(wanted) * (1 - _ENOUGH):
        read = passages[best].span if best is not None else None
        if best is None or read is None:
            return Reply(None)
        quoted = sentence_around(passages[best].text, *read)
        answered = (
            one.text for one in sentences if quoted.endswith("?") and one.passage == best and quoted in one.text
        )
        return Reply(next(answered, quoted))
    place = -max(found)[1]
    sentence = sentences[place]
    verdict = _cell(wanted, sentence.text) if names.isdisjoint(about) else None
    if not about:
        verdict = _said(sentence.text) or verdict or _verdict(question, sentence.text)
    # What the document is about is no answer: the sentence itself has to have half of the words.
    is_said = verdict is not None or 2 * len(lacking[place]) <= len(wanted)
    is_certain = is_said and not about and not is_superseded(question, passages[sentence.passage].context)
    return Reply(verdict or sentence.text, (Item.quoted(sentence.text, sentence.passage),), is_certain)


def _said(sentence: str) -> str | None:
    """The yes or no that answers a question in the text."""
    said = _SAID.search(sentence)
    return said[1].capitalize() if said else None


def _cell(wanted: set[str], sentence: str) -> str | None:
    """The yes or no in the only column that has a word of the question."""
    cells = [cell["value"] for cell in _CELL.finditer(sentence) if not wanted.isdisjoint(stems_of(cell["column"]))]
    return cells[0].capitalize() if len(cells) == 1 else None


def _weight(stem: str, lacking: Sequence[set[str]]) -> float:
    """The inverse document frequency of a word among sentences that lack these."""
    return math.log((len(lacking) + 1) / (sum(stem not in each for each in lacking) + 0.5))


def _verdict(question: str, sentence: str) -> Literal["Yes", "No"] | None:
    """What a sentence says to a question beyond doubt."""
    asked = canonical_question(question)[:-1]
    wanted = content_stems(question)
    order = [stem for word in re.findall(r"[\w-]+", question) for stem in content_stems(word) if stem in wanted]
    if (
        len(order) < _FEWEST_ASKED
        or "?" in sentence
        or _NOT.search(asked)
        or (_PRESENT.match(asked) and _PAST.search(sentence))
    ):
        return None
    edges = [0, *(edge for match in _CLAUSE.finditer(sentence) for edge in match.span()), len(sentence)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        words = re.findall(r"[\w'\u2019-]+", sentence[start:end])
        if start == edges[0] and _PRONOUN.match(sentence):  # it may be anybody before it
            needed = [stem for stem in order if stem not in content_stems(" ".join(NAMED.findall(question)) or "the")]
        else:
            needed = order
        places: list[int] = []
        for stem in needed:
            place = next((at for at in range((places or [-1])[-1] + 1, len(words)) if has_stem(words[at], stem)), None)
            if place is None:
                break
            places.append(place)
        if len(places) < len(needed) or not places:
            continue
        span, before = words[places[0] : places[-1] + 1], words[max(0, places[0] - 3) : places[0]]
        clause, asked_words = " ".join([*before, *span]), asked.split()
        is_owned = any(re.search(r"['\u2019]s?$", words[at]) for at in places) or "of" in before
        hedges = {hedge.lower() for hedge in _HEDGE.findall(sentence)}
        # "Did we hire it" is not answered by "hire it".
        is_past = (
            not asked.startswith("did ") or _DONE.search(clause) or not {*map(str.lower, span)} <= {*asked.split()}
        )
        is_loose = is_owned and "of" not in asked_words and "'s" not in asked
        is_loose |= _says_more([*words[: places[0]], *span], words[places[-1] + 1 :], question)
        is_no = _NOT.search(clause) or _UNTICKED_BOX.match(sentence)
        if is_loose or not is_past or not hedges <= {*asked_words} or (_NOT.search(sentence[start:end]) and not is_no):
            return None
        return "No" if is_no else "Yes"
    return None


def _says_more(words: Sequence[str], rest: Sequence[str], question: str) -> bool:
    """Whether a clause says more than what is asked, which may be the opposite: that the meeting "is cancelled".

    A name, a number, or where and when it is so, in the `rest` after all that is asked, change nothing.
    """
    is_placed = bool(rest) and _PLACED.match(rest[0]) is not None and not any(_VERB.fullmatch(word) for word in rest)
    said = [*words, *([] if is_placed else rest)]
    plain = [
        word
        for at, word in enumerate(said)
        if not NEGATION.search(word) and not (at and re.match(r"[A-Z][a-z]|\d", word))  # the first one may be any
    ]
    return bool(missing(content_stems(" ".join((question, *plain))), question))
