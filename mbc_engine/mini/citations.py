"""Whether what an LM wrote stands in the passages that it cites."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mbc_engine.bank.words import stem_of, stems_of, words_in
from mbc_engine.mini.kinds.forms import NUMBERS
from mbc_engine.text.chunks import split_sentences
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import ENGLISH

_CITATION: Final = re.compile(r"\s*\[(\d{1,2}(?:\s*[,;]\s*\d{1,2})*)\]")
_NUMBER: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"(?<![\w'’])[A-Z][\w'’.-]*\w|(?<!\w)[A-Z](?!\w)")  # noqa: RUF001
# Of a sentence's content words, these many must stand in what it cites, in any inflected form.
_LEAST_SHARED: Final = 0.5
_DATE: Final = re.compile(r"\b\d{4}-(\d\d)-\d\d|\b\d{1,2}\.(\d{1,2})\.\d{4}")
_MONTHS: Final = tuple(map(str.lower, MONTH_NAMES))
_COUNTS: Final = ("zero", *NUMBERS, "eleven", "twelve")


def cited(text: str) -> list[int]:
    """The numbers of the passages that a text cites, as in "[1]" or "[2, 3]", in order."""
    numbers = (number for match in _CITATION.finditer(text) for number in re.split(r"\s*[,;]\s*", match[1]))
    return list(dict.fromkeys(map(int, numbers)))


def unsupported(text: str, passages: Sequence[str]) -> tuple[str, ...]:
    """The sentences of a written text with a name, number or date, or mostly words, that no passage they cite has.

    A sentence that cites none may rest on any passage; one that cites a passage there is not has no support.
    """
    known = [_Known(passage) for passage in passages]
    sentences = (text[start:end].strip() for start, end in split_sentences(text))
    return tuple(sentence for sentence in sentences if sentence and not _is_supported(sentence, known))


def says(text: str, quotation: str) -> bool:
    """Whether a written text has most words, and all numbers, of what was found in the passages."""
    found = words_in(quotation)
    numbers = {word for word in found if _NUMBER.search(word) or word in _COUNTS}
    stems = _content(found)
    return numbers <= _spelled(words_in(text)) and len(stems & stems_of(text)) >= _LEAST_SHARED * len(stems)


class _Known:
    """The words of a passage, in other spellings too; a month that a date gives as a number has its name."""

    def __init__(self, passage: str) -> None:
        numbers = (int(match[1] or match[2]) for match in _DATE.finditer(passage))
        months = {_MONTHS[number - 1] for number in numbers if 1 <= number <= len(_MONTHS)}
        self.words = frozenset(_spelled(words_in(passage) | months))
        self.stems = frozenset(stems_of(passage)) | months


def _content(words: set[str]) -> set[str]:
    """The stems of words that are not common; a name may be made of common ones, as "The Who"."""
    return {stem_of(word) for word in words if not ENGLISH.issuperset(word.split())}


def _is_supported(sentence: str, passages: "Sequence[_Known]") -> bool:
    numbers = cited(sentence)
    if any(not 1 <= number <= len(passages) for number in numbers):
        return False
    among = [passages[number - 1] for number in numbers] or passages
    words = frozenset().union(*(passage.words for passage in among))
    stems = frozenset().union(*(passage.stems for passage in among))
    said = _CITATION.sub("", sentence)
    facts = {word for match in _NAME.finditer(said) if not _opens(said, match) for word in words_in(match[0])}
    facts |= {word for word in words_in(said) if _NUMBER.search(word) or word in _COUNTS}
    if any(words.isdisjoint(_spelled([word])) for word in facts - ENGLISH):
        return False
    content = _content(words_in(said))
    return len(content & stems) >= _LEAST_SHARED * len(content)


def _opens(sentence: str, match: re.Match[str]) -> bool:
    """Whether a capital may be there only because the sentence begins with it, as of "He" or "Costs"."""
    is_first = not sentence[: match.start()].strip("\"'“‘([*_- ")  # noqa: RUF001
    return is_first and not re.match(r"[\w'’.-]*\w\s+[A-Z]", sentence[match.start() :])  # noqa: RUF001


def _spelled(words: Iterable[str]) -> set[str]:
    """Words, with numbers up to twelve also as words or figures, months also in short, numbers without zeros in front."""
    spelled = {word.lstrip("0") or "0" if word.isdecimal() else word for word in words}
    for number, word in enumerate(_COUNTS):
        if {word, str(number)} & spelled:
            spelled |= {word, str(number)}
    for month in _MONTHS:
        if {month, month[:3]} & spelled:
            spelled |= {month, month[:3]}
    return spelled
