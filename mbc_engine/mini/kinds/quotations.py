"""Answers in the words of the passages: causes, summaries, what mentions something, and an answer from each."""

import re
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Final

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.lists import lists_in
from mbc_engine.mini.kinds.passages import (
    GENERIC,
    Item,
    Passage,
    Reply,
    sentences_of,
    table_rows,
    topic_of,
    with_all,
    with_introduced,
)
from mbc_engine.mini.kinds.settings import settings_in
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.dates import period_in
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import canonical_question

_MOST_SENTENCES, _MOST_QUOTED, _ENOUGH_CHARACTERS = 5, 3, 500
_LONGEST_CLAUSE: Final = 40  # words; what was transcribed may have no other end
_BECAUSE: Final = re.compile(
    r"\b(?:because(?: of)?|due to|owing to|thanks to|as a result of|in order to|so that|since)\s+",
    re.IGNORECASE,
)
_CLAUSE_END: Final = re.compile(
    r"[;:,]|[.!?](?=\s|$)| \(| [-\u2013\u2014] | and (?=(?:is|are|was|were|has|have|had|will|can|must|[a-z]{3,}(?<!e)ed)\b)"
)


def cause(question: str, passage: Passage) -> Reply | None:
    """The whole clause after "because" and the like that the reader's span is in.

    If its sentence gives no reason, that of the sentence which says most of what is asked.
    """
    if passage.span is None:
        return None
    text, (start, end) = passage.text, passage.span
    first, last = next(((a, b) for a, b in split_sentences(text) if a <= start < b), (start, end))
    if not _BECAUSE.search(text, first, last):
        wanted = content_stems(question)
        reasons = [match for span in split_sentences(text) if (match := _BECAUSE.search(text, *span))]
        said = {len(missing(wanted, sentence_around(text, *reason.span()))): reason for reason in reasons}
        if not said or min(said) > min(len(wanted) - 1, len(missing(wanted, text[first:last]))):
            return None
        start = end = said[min(said)].end()
        first, last = next((a, b) for a, b in split_sentences(text) if a <= start <= b)
    before = [match for match in _BECAUSE.finditer(text, first, last) if match.start() <= start + 1]
    if not before or _CLAUSE_END.search(text, before[-1].end(), start):
        return None
    begin = min(start, before[-1].end())
    stop = _CLAUSE_END.search(text, end, last)
    clause = on_one_line(text[begin : stop.start() if stop else max(last, end)])
    return Reply(clause) if len(clause.split()) <= _LONGEST_CLAUSE else None


def summary(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The sentences that say most of what the question is about, from the passages that are about it."""
    stems, names = topic_of(question)
    period = period_in(question)
    if period:
        stems = {stem for stem in stems if not stem.isdigit() and stem not in _MONTHS}
    if not stems and not period:
        return None
    lacking = {
        at: missing(stems, passage.said)
        for at, passage in enumerate(passages)
        if period is None or period.is_named_in(f"{passage.said} {passage.date or ''}")
    }
    fewest = min(map(len, lacking.values()), default=len(stems) + 1)
    if fewest > len(stems) / 2:
        return None
    about = [at for at, lacks in lacking.items() if len(lacks) == fewest and not names & lacks]
    if fewest:  # of one document, as others may be about other things
        about = [at for at in about if passages[at].name == passages[about[0]].name]
    if _DECIDED.match(question) and (decisions := [item for at in about for item in _decisions(passages[at], at)]):
        return Reply.of_list(decisions)
    scored = []
    for sentence in sentences_of(passages):
        if sentence.passage not in about:
            continue
        in_context = len(stems) - len(missing(stems, passages[sentence.passage].context))
        in_sentence = len(stems) - len(missing(stems, sentence.text))
        share = (in_sentence + 0.5 * in_context) / max(len(stems), 1)
        early = 1 / (2 + sentence.at) + 1 / (2 + about.index(sentence.passage))
        if in_sentence or in_context == len(stems):
            scored.append((share + early - bool(table_rows(sentence.text)), sentence))
    best = [sentence for _, sentence in sorted(scored, key=lambda one: -one[0])]
    lengths = accumulate(len(sentence.text) for sentence in best)
    enough = 1 + sum(length < _ENOUGH_CHARACTERS for length in lengths)
    chosen = sorted(best[: max(2, min(enough, _MOST_SENTENCES))])
    chosen = [one for at, one in enumerate(chosen) if one.text not in {other.text for other in chosen[:at]}]
    return Reply.of_sentences(Item.quoted(one.text, one.passage) for one in chosen)


_MONTHS: Final = stems_of(" ".join(MONTH_NAMES))
_DECIDED: Final = re.compile(r"what (?:was|were|has been) (?:decided|agreed)\b", re.IGNORECASE)
_DECISIONS: Final = re.compile(r"\b(?:decisions?|decided|agreed|resolutions?|resolved)\b.*\Z", re.IGNORECASE)


def _decisions(passage: Passage, at: int) -> list[Item]:
    """The entries of the lists under "Decisions" in a passage of this index."""
    lists = [each for each in lists_in(passage.text) if _DECISIONS.search(passage.text[: each[0].start].rstrip())]
    return [Item.quoted(entry.text, at) for each in lists for entry in each]


def mentions(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The documents that have every word of what the question is about, each with the sentence that has most."""
    said = with_all(topic_of(question)[0], passages)
    return Reply.of_list(item._replace(text=passages[item.passage].name) for item in said)


def keywords(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The sentences with most of a query's words, from the best documents that have all.

    Lines of settings each speak of something else, so words in several of them say nothing together.
    """
    found = with_all(content_stems(question), passages)
    said = (item for item in found if not any(settings_in(passages[item.passage].text)))
    return Reply.of_sentences(islice(said, _MOST_QUOTED))


_PARAGRAPH: Final = re.compile(r"\s*(?:A(?:nswer)?[:.] )?(?P<text>\S.*?)(?=\n\s*\n|\Z)", re.DOTALL)
# After a question in a mail, or among others in a list.
_NO_ANSWER: Final = re.compile(
    r"[-*\u2022] |(?:please|pls|thanks|thank you|cheers|let me|i (?:do not|don['\u2019]t|have no)|no idea|best|kind regards|regards|yours)\b",
    re.IGNORECASE,
)
_SPEAKER: Final = re.compile(r"(?:\[[^\]\n]*\] )?[\w ]{1,30}: ")


def asked_there(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What follows the same question in a passage: the rest of its paragraph or the next one, up to another question.

    What somebody says after it in a conversation may be no answer.
    """
    same = re.compile(rf"(?:\A|\W ){re.escape(canonical_question(question))}\Z")
    for at, passage in enumerate(passages):
        for start, end in split_sentences(passage.text):
            is_same = passage.text[end - 1] == "?" and same.search(canonical_question(passage.text[start:end]))
            if after := _PARAGRAPH.match(passage.text, end) if is_same else None:
                text, first = after["text"], after.start("text")
                said, is_spoken = split_sentences(text), _SPEAKER.match(text) is not None
                asked = next((begin for begin, last in said if text[last - 1] == "?"), len(text))
                last = max((last for _, last in said[: 1 if is_spoken else None] if last <= asked), default=0)
                answer = with_introduced(passage.text, first, first + last) if last else ""
                if answer and not _NO_ANSWER.match(answer):
                    return Reply.of_sentences([Item.quoted(answer, at)], is_certain=not is_spoken)
    return None


# Of a span over "not here", in a sentence with the words of the question.
_LEAST_MARGIN: Final = -1.0


def several(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What the reader found in each passage whose sentence has the words of the question; the newest first.

    And what stands in its place where another passage says the same of something else, whatever the reader found there.
    """
    wanted = content_stems(question) - GENERIC
    dates = [passage.date for passage in passages]
    order = sorted(range(len(passages)), key=lambda at: passages[at].place)
    if len({*dates} - {None}) > 1:
        order.sort(key=lambda at: dates[at] or "", reverse=True)
    found: dict[int, Item] = {}
    places: dict[str, set[int]] = {}  # which of the names and numbers of sentences of one pattern answer
    for at in order:
        text, span = passages[at].text, passages[at].span
        if span is None or passages[at].margin < _LEAST_MARGIN:
            continue
        sentence, answer = sentence_around(text, *span), on_one_line(text[slice(*span)])
        if not missing(wanted, sentence):
            found[at] = Item(answer, at, sentence)
            said, named = _pattern(sentence)
            places.setdefault(said, set()).update([named.index(answer)] if answer in named else [])
    for one in sentences_of(passages):
        said, named = _pattern(one.text)
        if one.passage not in found and len(places.get(said, ())) == 1 and not missing(wanted, one.text):
            found[one.passage] = Item(named[min(places[said])], one.passage, one.text)
    items: dict[str, Item] = {}
    for at in order:
        if at in found:
            items.setdefault(found[at].text.lower().removeprefix("the "), found[at])
    return Reply.of_list(items.values()) if len(items) > 1 else None


_VARYING: Final = re.compile(r"(?<!^)\b[A-Z][\w'-]*(?: [A-Z][\w'-]*)*|\d[\d.,:]*\d|\d")


def _pattern(sentence: str) -> tuple[str, list[str]]:
    """A sentence without its names and numbers, and these."""
    return _VARYING.sub("\0", sentence), _VARYING.findall(sentence)
