"""The words of a text, their stems, and the numbers by which they are indexed: hashes of stems, which may collide."""

import re
import zlib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final

from mbc_engine.text.characters import spellings
from mbc_engine.text.language import ENGLISH

# Hash buckets. Words of texts that were indexed by an earlier version, and that only a language model can decode, are
# known by the lowest bits of their hash, and have numbers of their own.
BUCKETS: Final = 1 << 20
EARLIER_BUCKETS: Final = 1 << 12
WORDS: Final = BUCKETS + EARLIER_BUCKETS
# Chinese, Japanese and Thai have no spaces between words: any two adjacent characters count as a word.
_SIGN: Final = "\u3041-\u30ff\u3400-\u9fff\u0e01-\u0e4e"
_WORD: Final = re.compile(rf"[^\W{_SIGN}]+")
_TOKEN: Final = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}]+|[\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff]")
# Pictures, and names like C++ and C#.
_SYMBOLS: Final = re.compile(r"[\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff]|\b[^\W\d_]\w?(?:\+\+|#)")
# Numbers of several parts, as 3.5 and 10:30 and 2.10.3.
_PARTED: Final = re.compile(r"(?<!\d)\d++(?:[.,:]\d++)+")
# Words within names like max_size and RBC113, and the letter that begins another within maxSize and HTTPServer.
_WITHIN: Final = re.compile(r"[^\W\d_]{3,}")
_HUMP: Final = re.compile(r"[A-Z](?:(?<=[a-zß-ÿ].)|(?<=[A-Z].)(?=[a-z]))")
OPTION: Final = re.compile(r"(?<!\S)--?[^\W\d_][\w-]*")  # of a program: -x, --exclude
SETTING: Final = "(?:option|flag|switch|parameter|argument|setting)"
_SETTING_NAME: Final = re.compile(rf"\b([\w-]+) {SETTING}\b")
_CAPITALISED: Final = re.compile(r"\b([A-Z]\w+) (?=([A-Z]\w+))")
_PLURALS: Final = (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", ""))
_SUFFIXES: Final = ("ing", "ed", "ly", "er", "or", "ion", "ment", "al", "ive", "e")
_SHORTEST_STEM: Final = 4


def words_in(text: str) -> set[str]:
    """Runs of letters, digits and underscores, case and diacritics folded; character pairs in unspaced scripts.

    A word that is also written in another way, as 1,240 or e-mail or Müller, is there in each; see `spellings`. Numbers
    and names of several parts, as 3.5 and max_size and maxSize, are there as their parts and as a whole.
    """
    words = {*_SYMBOLS.findall(text.lower()), *(re.sub("[,:]", ".", number) for number in _PARTED.findall(text))}
    for spelling in spellings(text):
        words.update(_WORD.findall(spelling), () if spelling.isascii() else _signs().findall(spelling))
    words.update(*(_WITHIN.findall(word) for word in words if not word.isalpha()))
    if _HUMP.search(text):
        parted = _WORD.findall(next(spellings(_HUMP.sub(r" \g<0>", text))))
        words.update(*map(_WITHIN.findall, parted))
    return words.union(_names_of_common_words(text))


@cache
def _signs() -> re.Pattern[str]:
    """Two signs of unspaced scripts side by side, or one alone; its sets take long to compile, and few texts have any."""
    return re.compile(rf"(?=([{_SIGN}]{{2}}|(?<![{_SIGN}])[{_SIGN}](?![{_SIGN}])))")


def tokens_of(text: str) -> list[str]:
    """A text's words in order, without case and diacritics; names like max_size in parts, unspaced scripts in characters."""
    return _TOKEN.findall(next(spellings(text)))


def content_words(text: str) -> set[str]:
    """The words of a text that tell what it is about; of one that has none, like "The Who", all words.

    A common word does if it names an option, as in "the name parameter".
    """
    text = text.lower()
    named = words_in(" ".join(_SETTING_NAME.findall(text))) - ENGLISH
    return words_in(text) - (_common_words() - named) or words_in(text.title())


def matcher(question: str) -> Callable[[str], set[object]]:
    """Finds in texts the content words of a question as they are written, and any two words of it that are neighbours.

    An option of a program is found with its dashes and its case, the words within a name like maxSize also apart.
    """
    content, asked = content_words(question), [tokens_of(question), *_words_of_names(question)]
    pairs = {pair for tokens in asked for pair in pairwise(tokens) if not content.isdisjoint((*pair, "".join(pair)))}
    sought, options = content.intersection(asked[0]), {*OPTION.findall(question)}

    def shared_words(text: str) -> set[object]:
        shared: set[object] = {option for option in options if re.search(rf"(?<![\w-]){option}(?![\w-])", text)}
        for tokens in (tokens_of(text), *_words_of_names(text)):
            shared |= sought.intersection(tokens) | pairs.intersection(pairwise(tokens))
        return shared

    return shared_words


def _words_of_names(text: str) -> list[list[str]]:
    """The words within each name like maxSize, in order."""
    names = _WORD.findall(text) if _HUMP.search(text) else []
    return [tokens_of(_HUMP.sub(r" \g<0>", name)) for name in names if _HUMP.search(name)]


def _names_of_common_words(text: str) -> Iterator[str]:
    """Pairs of capitalised words that are left out alone, as "The Who"."""
    for match in _CAPITALISED.finditer(text):
        pair = {match[1].lower(), match[2].lower()}
        if pair <= _common_words():
            yield f"{match[1]} {match[2]}".lower()


def stems_of(*texts: str) -> set[str]:
    """The stems of the words of texts; two numbers are not read as one if they are in different texts."""
    return {stem_of(word) for text in texts for word in words_in(text)}


def word_numbers(text: str) -> list[int]:
    """The distinct numbers of a text's words, ascending; common words are left out."""
    return sorted(numbered_words(text))


def numbered_words(text: str) -> dict[int, str]:
    """As `word_numbers`, each with the first word, alphabetically, that has it."""
    return {number_of(word): word for word in sorted(words_in(text) - _common_words(), reverse=True)}


def indexed_numbers(text: str) -> set[int]:
    """The numbers under which a text is indexed; function words are left out."""
    return {number_of(word) for word in words_in(text) - (ENGLISH & _common_words())}


@cache
def _common_words() -> frozenset[str]:
    return frozenset(files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split())


@lru_cache(1 << 16)
def number_of(word: str) -> int:
    """The CRC-32 of a word's stem, modulo the number of buckets."""
    return zlib.crc32(stem_of(word).encode()) % BUCKETS


def stem_of(word: str) -> str:
    """A word of `words_in` without usual English endings, a number as it is."""
    if not word.isalpha():
        return word
    if len(word) >= _SHORTEST_STEM:
        end, other = next((pair for pair in _PLURALS if word.endswith(pair[0])), ("", ""))
        word = word.removesuffix(end) + other
    for suffix in _SUFFIXES:
        if len(word) >= _SHORTEST_STEM + len(suffix):
            word = word.removesuffix(suffix)
    return word[:-1] if word.endswith("y") and len(word) > _SHORTEST_STEM else word
