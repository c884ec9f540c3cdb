"""Cuts texts at English sentence ends into chunks that fit an encoder's window, without loss. Needs no torch.

Rows of tables and records stand alone: groups of `key: value` lines, or paragraphs below a name, that say the same of
different things.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from mbc_engine.text.context import clipped, context_parts, shortened
from mbc_engine.text.document import Section
from mbc_engine.text.language import ENGLISH, word_set

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORD = re.compile(r"\S+")
_OPENERS = "\"'“‘«([{*_"  # noqa: RUF001
_CLOSERS = "\"'”’»)]}*_"  # noqa: RUF001
# Reference marks belong to the sentence before them: "…in 1911.[3][4]".
_REFERENCES = re.compile(r"(?<=[.!?])(?:\[\w{1,4}\])+$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")


_ABBREVIATIONS = word_set(
    "mr mrs ms mx dr prof st mt ft sr jr hon rev fr gen adm col maj capt cmdr lt sgt cpl pvt gov sen rep pres supt "
    "vs cf al etc approx ext tel ca est dept univ assn bros inc corp ltd co llc ave blvd rd "
    "jan feb mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu thurs fri"
)
_BEFORE_NUMBERS = word_set("no nos fig figs vol vols pp sec ch art eq op ed nr para")
# Words that open sentences far more often than they follow "Mr." or "U.S.".
_STARTERS = word_set(
    "The This That These Those There Then They He She It We You I His Her Its Their Our My In On At By For From With "
    "After Before During Since When While As If But And Or So However Although Though Because Not "
    "What Who Where Why How Some Many Most Several Both Another Other One Later Today"
)

# A row of a table: a line as `table_lines` writes it, whose columns may have no names, or one with gaps between columns.
_NAMED: Final = r"[^\n:;]{1,80}: "
_LINE_END: Final = r"(?<![.!?,])(?=\n|\Z)"
_ROW: Final = re.compile(
    rf"{_NAMED}[^\n]*?; {_NAMED}"
    rf"|[^\n:;]{{1,80}}; {_NAMED}[^\n]*?(?:; {_NAMED}|{_LINE_END})"
    rf"|(?:(?!and |or )[^\n;]{{1,40}}; ){{2,}}+(?!and |or )[^\n;]{{1,40}}{_LINE_END}"
    r"|(?:[^\s](?:\S| (?! )){0,60}(?<![.!?:,;])(?: {2,}|\t+)){2,}+\S"
)
# What stands in a column of such a row.
_CELL: Final = re.compile(r"[^\s;](?:[^\n\t ;]| (?! ))*")
_GAP: Final = re.compile(r"(?<=\S)(?: {2,}| *\t[ \t]*)(?=\S)")
_WIDEST_GAP: Final = 3  # of justified text
# Lines that are not longer are entries, not parts of a paragraph that was wrapped or justified.
NARROW: Final = 60
_FEWEST_WRAPPED: Final = 3  # lines, of which a paragraph is seen to be wrapped
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+\u2022]|\(?\w{1,2}[.)])[ \t]")


def _without_justification(text: str) -> str:
    """The text with no gaps in justified lines, each filled, so that these are no rows of tables.

    The gaps of a row stand below or above those of another, or are tabs. `col` makes some gaps of manual pages tabs.
    """
    if "  " not in text:
        return text
    lines = text.split("\n")
    gaps = [[gap.span() for gap in _GAP.finditer(line.expandtabs())] for line in lines]
    for at, own in enumerate(gaps):
        is_wide = any(end - start > _WIDEST_GAP for start, end in own)
        if len(own) < 2 or is_wide or len(lines[at]) <= NARROW or "  " not in lines[at].strip():
            continue
        beside = (gaps[other] for other in (at - 1, at + 1) if 0 <= other < len(lines))
        if not any(
            all(any(min(end, last) - max(start, first) > 1 for first, last in other) for start, end in own)
            for other in beside
        ):
            lines[at] = _GAP.sub(lambda gap: " " + "_" * (len(gap[0]) - 1), lines[at])
    return "\n".join(lines)


def _continuations(text: str) -> set[int]:
    """Where the further lines of wrapped paragraphs begin: the first word of each did not fit into the line before."""
    paragraphs: list[list[tuple[int, str]]] = [[]]
    start = 0
    for line in text.split("\n"):
        begin = start + len(line) - len(line.lstrip())
        start += len(line) + 1
        if not line.strip() or _ROW.match(text, begin):
            paragraphs.append([])
        else:
            paragraphs += [[]] if _BULLET.match(line) else []
            paragraphs[-1].append((begin, line.rstrip()))
    starts = set[int]()
    for lines in paragraphs:
        width = max((len(line) for _, line in lines), default=0)
        is_wrapped = len(lines) >= _FEWEST_WRAPPED and width > NARROW
        if is_wrapped and all(
            len(line) + len(following.split(maxsplit=1)[0]) >= width for (_, line), (_, following) in pairwise(lines)
        ):
            starts |= {begin for begin, _ in lines[1:]}
    return starts


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Spans (start, end) of the sentences, in order, covering every character that is not white space.

    A blank line always ends a sentence; a single line break does unless the text plainly runs on (a lower-case word
    follows, a comma precedes it, or all lines of the paragraph are full, and no row of a table follows).
    """
    return list(_sentences_of_passage(text) if len(text) <= _PASSAGE else _sentences(text))


def _sentences(text: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    start = end = 0
    previous = ""
    with_rows = _without_justification(text)
    continuations = _continuations(with_rows) if "\n" in text else ()
    for match in _WORD.finditer(text):
        gap = " " if match.start() in continuations else text[end : match.start()]
        if not previous:
            start = match.start()
        elif _is_end(previous, gap, match[0], is_first=start == end - len(previous)) or (
            "\n" in gap and _ROW.match(with_rows, match.start())
        ):
            spans.append((start, end))
            start = match.start()
        previous, end = match[0], match.end()
    return (*spans, (start, end)) if previous else ()


# A question divides each of the passages that it reads some five times.
_PASSAGE: Final = 4096  # characters
_sentences_of_passage: Final = lru_cache(64)(_sentences)


def _is_end(word: str, gap: str, following: str, *, is_first: bool) -> bool:
    line_breaks = gap.count("\n")
    if line_breaks > 1:
        return True
    follower = following.lstrip(_OPENERS)
    runs_on = follower[:1].islower()
    stem = _REFERENCES.sub("", word).rstrip(_CLOSERS)
    if not stem.endswith((".", "!", "?", "…")):
        return line_breaks == 1 and not runs_on and not word.endswith(",")
    if runs_on:
        return False
    if not stem.endswith(".") or stem.endswith(".."):
        return True
    return not _is_abbreviation(stem[:-1].lstrip(_OPENERS), follower, is_first=is_first)


def _is_abbreviation(word: str, follower: str, *, is_first: bool) -> bool:
    """Whether the full stop after `word` belongs to the word (Mr., U.S., J., No. 5, the 1. of a list)."""
    if is_first and (len(word) == 1 or word.isdecimal()):
        return True
    if word.lower() in _BEFORE_NUMBERS:
        return follower[:1].isdecimal()
    if word.lower() in _ABBREVIATIONS or _DOTTED.fullmatch(word) or (len(word) == 1 and word.isalpha()):
        return follower.rstrip(",;:" + _CLOSERS).partition("'")[0] not in _STARTERS
    return False


_LINE: Final = re.compile(r"[^\n\s][^\n]*")
# "- length: 7.1 m", "**Built**: 1999", "berth = 3", but no utterance and no clause of a sentence.
_ENTRY: Final = re.compile(
    r"(?:[-*+•]\s+|\d+[.)]\s+)?[*_\"']{0,3}(?P<key>[^\W\d_][^\n:=;]{0,38}?)[*_\"']{0,3}\s?[:=][*_\"']{0,3}\s+"
    r"(?P<value>\S[^\n]{0,99})(?<![.!?])\s*"
)
_MARKS: Final = " \t#=-*_~>"  # of Markdown and rulers, around a label
_LONGEST_LABEL: Final = 80
_FEWEST_KEYS: Final = 2  # that records share
# A paragraph that begins with a name: "Curlew. Length 7.1 m, berth 3.", "**Curlew** - 7.1 m".
_PARAGRAPH: Final = re.compile(
    r"(?:\A|(?<=\n\n))[*_]{0,3}(?P<name>[^\W\d_](?:[\w'-]| (?=\w)){1,39})[*_]{0,3}(?:[.:]| [-\u2013\u2014])[*_]{0,3} +"
    r"(?P<rest>\S[^\n]{0,400})(?=\n\n|\n?\Z)"
)
_IN_NAMES: Final = {"a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to", "with"}
_KEY_WORD: Final = re.compile(r"(?<![\w'-])[a-z]{3,}")


def record_starts(text: str) -> list[int]:
    """Where records begin, each with the line above that names it; only those that share keys with one beside them.

    The keys of a paragraph are its words, but function words.
    """
    paragraphs = [
        (found.start(), {*_KEY_WORD.findall(found["rest"].lower())} - ENGLISH)
        for found in _PARAGRAPH.finditer(text)
        if not {*found["name"].lower().split()} & ENGLISH - _IN_NAMES  # "There is not." is no name
    ]
    return sorted({*_alike(_records_of_lines(text)), *_alike(paragraphs)})


def _alike(records: Sequence[tuple[int, set[str]]]) -> list[int]:
    alike = [len(keys & others) >= _FEWEST_KEYS for (_, keys), (_, others) in pairwise(records)]
    beside = zip([False, *alike], [*alike, False], strict=True)
    return [start for (start, _), either in zip(records, beside, strict=False) if any(either)]


def _records_of_lines(text: str) -> list[tuple[int, set[str]]]:
    lines = [
        (line.start(), line[0].strip(_MARKS), entry["key"].lower() if entry else "")
        for line in _LINE.finditer(text)
        for entry in [_ENTRY.fullmatch(text, line.start(), line.end())]
    ]
    counts = Counter(key for _, _, key in lines if key)
    # As "Vik: Berth: 3" above "Mast: 9", where a list of terms has several definitions of each.
    begins_with_name = counts[next(iter(counts), "")] == 1
    records: list[tuple[int, set[str]]] = []
    label: int | None = None
    for start, words, key in lines:
        if key and not (begins_with_name and counts[key] == 1):
            if not records or label is not None or key in records[-1][1]:
                records.append((start if label is None else label, set()))
            records[-1][1].add(key)
            label = None
        elif words:
            label = start if len(words) <= _LONGEST_LABEL and words[-1] not in ".!?," else None
    return records


def record_cells(text: str) -> list[tuple[str, str]]:
    """The keys and values of a text that is one record, after the line that names it, whose key is empty; else none."""
    lines = [line for line in _LINE.finditer(text) if line[0].strip(_MARKS)]
    entries = [_ENTRY.fullmatch(line[0]) for line in lines]
    cells = [(entry["key"], entry["value"].strip()) for entry in entries if entry]
    if len({key.lower() for key, _ in cells}) < max(len(cells), _FEWEST_KEYS) or None in entries[1:]:
        return []
    return cells if entries[0] else [("", lines[0][0].strip(_MARKS)), *cells]


class Chunk(NamedTuple):
    """A slice of a document's text, the index of its first character, and the headings that it stands under."""

    text: str
    start: int
    headings: str = ""  # of its section, outermost first, joined by " > "


# The start and the end of a part of a text, and its number of tokens.
_Span = tuple[int, int, int]


# A chunk with less than this share of the tokens goes on in the next section.
_SMALLEST_SHARE: Final = 1 / 8
_LARGEST_NAMES: Final = 1 / 4  # that are moved to the chunk with what is said of them


def chunk(
    text: str, count_tokens: Callable[[list[str]], list[int]], max_tokens: int, sections: Sequence[Section] = ()
) -> list[Chunk]:
    """Pack whole sentences into chunks of at most `max_tokens` tokens, in order, losing nothing but white space.

    A section begins a new chunk unless the last one is tiny and no row of a table, and so does every further row and
    record, unless it is the only one below its heading, and what follows a table: these are so alike that of several in
    a chunk none is found, or another is read.
    A longer sentence is cut between words, a longer word between characters, a longer character not at all.
    `count_tokens` must not count special tokens; joining texts by white space must not raise their total.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")

    def measure(parts: Iterable[tuple[int, int]]) -> list[_Span]:
        spans = list(parts)
        counts = count_tokens([text[start:end] for start, end in spans]) if spans else []
        return [(*part, tokens) for part, tokens in zip(spans, counts, strict=True)]

    def divide(spans: list[_Span], split: Callable[[int, int], list[tuple[int, int]]]) -> list[_Span]:
        """Split the spans that are too long, and count the tokens of all their parts in one call."""
        parts = [split(start, end) if tokens > max_tokens else [] for start, end, tokens in spans]
        measured = iter(measure(part for several in parts for part in several))
        fitting: list[_Span] = []
        for span, several in zip(spans, parts, strict=True):
            fitting += [next(measured) for _ in several] or [span]
        return fitting

    def words(start: int, end: int) -> list[tuple[int, int]]:
        return [match.span() for match in _WORD.finditer(text, start, end)]

    starts = [section.start for section in sections]
    records = _of_several(text, record_starts(text), starts)
    spans = divide(measure(_split_at(text, split_sentences(text), sorted({*starts, *records}))), words)
    while any(tokens > max_tokens and end - start > 1 for start, end, tokens in spans):
        spans = divide(spans, _halves)
    packed = _packed(text, spans, max_tokens, starts, set(records))
    return [Chunk(text[start:end], start, _headings(text[start:end], start, sections)) for start, end in packed]


def _of_several(text: str, records: list[int], starts: list[int]) -> list[int]:
    """Where records begin, but those that are alone in their section, right below its heading."""
    sections = [bisect_right(starts, record) for record in records]
    counts, begins = Counter(sections), {*starts}
    return [
        record
        for record, section in zip(records, sections, strict=True)
        if counts[section] > 1 or not section or "\n" in text[starts[section - 1] : record].strip() or record in begins
    ]


def _split_at(text: str, spans: list[tuple[int, int]], starts: list[int]) -> list[tuple[int, int]]:
    """The spans, of which those that a section begins in are split there, without white space around them."""
    if not starts:
        return spans
    split: list[tuple[int, int]] = []
    for start, end in spans:
        for first, last in pairwise([start, *starts[bisect_right(starts, start) : bisect_left(starts, end)], end]):
            part = text[first:last]
            if written := part.strip():
                begin = first + len(part) - len(part.lstrip())
                split.append((begin, begin + len(written)))
    return split


def _headings(text: str, start: int, sections: Sequence[Section]) -> str:
    """The headings of the section in which a chunk begins, and of later ones those that its text does not show."""
    first = bisect_right(sections, start, key=lambda section: section.start) - 1
    headings = [sections[first].context] if first >= 0 else []
    for section in sections[first + 1 :]:
        if section.start >= start + len(text):
            break
        last = section.context.rpartition(" > ")[2]
        if last not in text and section.context not in headings:
            headings.append(last)
    return clipped("; ".join(filter(None, headings)))


def _halves(start: int, end: int) -> list[tuple[int, int]]:
    middle = (start + end) // 2
    return [(start, middle), (middle, end)] if start < middle else [(start, end)]


_TABLE: Final = re.compile(
    rf"^(?:(?!(?:{_ROW.pattern}))(?P<caption>[^\n]{{1,99}}[^\n.!?])\n\n?)?"
    rf"(?P<rows>(?:(?>{_ROW.pattern})[^\n]*+(?:\n|\Z)){{2,}}+)",
    re.MULTILINE,
)
# A first row that names columns, when the others have values.
_HEADER: Final = re.compile(r"(?P<names>[^\n\d:]{1,99})\n[^\n]*\d")


def with_captions(text: str, sections: Sequence[Section]) -> Sequence[Section]:
    """The sections, and one for each table with a short line above it that is no sentence, or a row of names of columns.

    All its rows must know these.
    """
    with_tables = list(sections)
    for table in _TABLE.finditer(_without_justification(text)):
        start, end = table.span("rows")
        first, last = (bisect_right(sections, at, key=lambda section: section.start) for at in (start, end))
        context = sections[first - 1].context if first else ""
        header = _HEADER.match(text, start)
        captions = [
            (table["caption"] or "").strip().rstrip(":"),
            "; ".join(_CELL.findall(header["names"])) if header else "",
        ]
        added = [caption for caption in captions if caption and caption != context.rpartition(" > ")[2]]
        if first == last and added:
            with_tables.append(Section(start, " > ".join(filter(None, (context, *added)))))
            if end < len(text):
                with_tables.append(Section(end, context))
    return sorted(with_tables)


def _packed(
    text: str, spans: list[_Span], max_tokens: int, starts: list[int], records: set[int]
) -> list[tuple[int, int]]:
    packed: list[tuple[int, int]] = []
    room, most_left, at, is_row = 0, max_tokens * (1 - _SMALLEST_SHARE), 0, False
    with_rows = _without_justification(text)
    names: list[_Span] = []  # at the end of the last chunk, of what may follow further in
    before_names = 0
    for start, end, tokens in spans:
        following = bisect_right(starts, start, lo=at)
        is_section, at = following > at, following
        is_apart = (is_section and room <= most_left) or start in records
        gap = text[packed[-1][1] : start] if packed else "\n"
        if "\n" in gap:
            was_row, is_row = is_row, _ROW.match(with_rows, start, end) is not None
            is_apart = is_apart or (was_row and (is_row or is_section or gap.count("\n") > 1))
        own_end = packed[-1][1] if packed else 0
        # Parts of one word stay apart: without white space between them their counts need not add up.
        if packed and tokens <= room and own_end < start and not is_apart:
            packed[-1] = (packed[-1][0], end)
            room -= tokens
        else:
            begin, room = start, max_tokens - tokens
            named = sum(tokens for *_, tokens in names)
            is_further_in = names and _indent(text, start) > _indent(text, names[0][0])
            if is_further_in and not is_apart and named <= min(room, max_tokens * _LARGEST_NAMES):
                begin, room, packed[-1] = names[0][0], room - named, (packed[-1][0], before_names)
            packed.append((begin, end))
        is_name = (
            "\n" in gap and text[end : end + 1] == "\n" and text[end - 1] not in ".!?:;," and packed[-1][0] < start
        )
        before_names = before_names if names and is_name else own_end
        names = [*names, (start, end, tokens)] if is_name else []
    return packed


def _indent(text: str, start: int) -> int:
    """How far in a line begins, with the character `start` of a text in it."""
    before = text[text.rfind("\n", 0, start) + 1 : start].expandtabs()
    return len(before) - len(before.lstrip())


@dataclass(frozen=True)
class Chunker:
    """Cuts texts by an encoder's tokens; `capacity` of them fit its window beside the special ones.

    The context of a chunk has `context_tokens` at most.
    """

    tokenizer: "Tokenizer"
    capacity: int
    context_tokens: int = 0

    def __call__(self, text: str) -> list[str]:
        return [chunk.text for chunk in self.chunks(text)]

    def leaving(self, context_tokens: int) -> Self:
        """The same, with contexts of at most this many tokens."""
        return replace(self, context_tokens=context_tokens)

    def chunks(self, text: str, sections: Sequence[Section] = ()) -> list[Chunk]:
        """The chunks of a text; its sections are disregarded if chunks have no contexts."""
        captioned = with_captions(text, sections) if self.context_tokens else ()
        return chunk(text, self.token_counts, self.capacity, captioned)

    def contexts(
        self,
        source: str,
        title: str,
        chunks: Sequence[Chunk],
        parts: Callable[[str, str, str], list[str]] = context_parts,
    ) -> list[str]:
        """The context of each chunk, of these parts, shortened to `context_tokens`."""
        if not self.context_tokens:
            return [""] * len(chunks)

        @cache
        def context(headings: str) -> str:
            several = parts(source, title, headings)
            return shortened(several, lambda line: self.token_counts([line])[0] <= self.context_tokens)

        return [context(chunk.headings) for chunk in chunks]

    def token_counts(self, texts: list[str]) -> list[int]:
        # On every call, as the encoder sets its own options before each use.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        return [len(encoding) for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
