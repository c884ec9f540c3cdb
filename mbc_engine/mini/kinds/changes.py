"""Lists of changes: the version that an entry stands below, the day of a version, and what was added or fixed in one."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mbc_engine.bank.words import OPTION, stems_of
from mbc_engine.mini.kinds.lists import lists_in
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.word_matching import NEGATION, missing
from mbc_engine.sources import content_stems
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.document import MONTH_WORDS

# As "2.1.0 (2024-03-01)", "Version 3.0, 1 May 2024" and "CHANGES FROM 2.0 TO 2.1".
_VERSION: Final = re.compile(
    rf"(?=.*?\d\.\d)(?:[^\w.]|\.(?=\w)|\(https?:[^)\s]*\)|\bv?\d\w*|\b(?:versions?|releases?|released|changes|from|to|in|{MONTH_WORDS})\b)+",
    re.IGNORECASE,
)
_LONGEST: Final = 200
_DAY: Final = re.compile(
    rf"\b(?:\d{{4}}-\d\d-\d\d|(?:{MONTH_WORDS}) \d\d?(?:st|nd|rd|th)?,? \d{{4}}|\d\d?(?:st|nd|rd|th)? (?:{MONTH_WORDS}),? \d{{4}})\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?<![\w.])v?\d+(?:\.\d+)+\w*(?!\.?\w)", re.IGNORECASE)
# A number of two parts on a line of its own may as well be a section's, a price or a time.
_IS_OF_CHANGES: Final = re.compile(
    rf"(?i:\d\.\d+\.\d|\bv\d|\b(?:versions?|releases?|changes|{MONTH_WORDS})\b|\b\d{{4}}-\d\d-\d\d\b)"
)
_CHANGES: Final = re.compile(r"change|release|history|news\b|version", re.IGNORECASE)
_LINK: Final = re.compile(r" ?\(https?:[^)\s]*\)")
_EARLIER: Final = re.compile(r"\bfrom\s+\S+\s+(?=to\b)", re.IGNORECASE)
_DOING: Final = r"(?:add|introduc|remov|drop|fix|deprecat|renam|chang|replac|releas|publish)\w*"
_BEGINS: Final = re.compile(rf"\W*{_DOING}", re.IGNORECASE)
# "is no longer removed", "will be removed"
_NOT_DONE: Final = re.compile(
    rf"(?:{NEGATION.pattern}|\b(?:will|to|shall|may|might|can|could|should|would) be\b)(?: \w+){{0,2}}? {_DOING}",
    re.IGNORECASE,
)
_RELEASED: Final = re.compile(r"\b(?:released|published)\b", re.IGNORECASE)
_DONE: Final = re.compile(r"what (?:was|were|is|has been) (add|fix|chang|remov|deprecat)ed\b", re.IGNORECASE)
# Above entries that need not say it themselves, as in "Keep a Changelog".
_DONE_BELOW: Final = re.compile(
    r"\W*(?:added|changed|deprecated|removed|fixed|security|additions|changes|deprecations|removals|fixes|bug ?fixes|"
    r"(?:new )?features|improvements|breaking changes)\W*",
    re.IGNORECASE,
)
_NEEDLESS: Final = stems_of("version release support officially publish")
_CHANGING: Final = stems_of(
    "add added introduce remove drop dropped fix fixed deprecate rename change replace release publish"
)
_ALIKE: Final = (stems_of("add added introduce new"), stems_of("drop dropped remove"), stems_of("fix fixed"))


class _Entry(NamedTuple):
    """An entry or sentence of a passage, the version that it stands below, and what the line above says was done."""

    passage: int
    version: str
    said: str
    done: str


def changed_in(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The line with a version, above the first entry with all words of a question but those known of its document.

    If the question is when a version was released, the day in its line, or of its release below. Of several documents,
    what the first entry in each says.
    """
    found: dict[str, Item] = {}
    for item in _changed_in(question, passages):
        found.setdefault(_document(passages[item.passage]), item)
    return Reply.of_named(found.items())


def _changed_in(question: str, passages: Sequence[Passage]) -> Iterator[Item]:
    numbers, is_release = _numbers(question), _RELEASED.search(question) is not None
    wanted = content_stems(_NUMBER.sub("", question) if is_release else question) - _NEEDLESS
    options = _options(question)
    for at, version, said, done in _entries(passages):
        if is_release:
            day = _DAY.search(version if said == version else said if _RELEASED.match(said) else "")
            named = f"{passages[at].context} {version}"
            if day and numbers and numbers <= _numbers_of(version) and not missing(wanted, named):
                yield Item(day[0], at, f"{version} {said}" if said != version else version)
            continue
        is_entry = version and said != version and _is_of_changes(version, passages[at])
        if is_entry and options <= _options(said) and _says(said, done, wanted, passages[at].context):
            yield Item(_LINK.sub("", version), at, said)


def _is_of_changes(version: str, passage: Passage) -> bool:
    about = f"{passage.name} {passage.context}"
    return _IS_OF_CHANGES.search(version) is not None or _CHANGES.search(about) is not None


def _document(passage: Passage) -> str:
    """What the document of a passage is about: the programs whose changes it lists have files of one name."""
    about = passage.context.partition(" > ")[0]
    return passage.name if _is_version(about) else about or passage.name


def changes_of(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The entries below the version that a question names that stand below or begin with what was done, or say it."""
    asked, numbers = _DONE.match(question), _numbers(question)
    if asked is None or not numbers:
        return None
    wanted = content_stems(question) - stems_of(f"{asked[1]}ed") - _NEEDLESS
    is_done = re.compile(
        rf"\W*{asked[1]}(?:e?[ds]?|ing)\b|.*\b(?:been|is|are|was|were|now) (?:now |been )?{asked[1]}ed\b", re.IGNORECASE
    )
    found = sorted(
        (passages[at].place, order, at, said)
        for order, (at, version, said, done) in enumerate(_entries(passages))
        if numbers <= _numbers_of(version)
        and said != version
        and not missing(wanted, f"{passages[at].context} {version}")
        if is_done.match(said) or is_done.match(done.lower().removeprefix("bug").lstrip())
    )
    documents = {at: _document(passages[at]) for *_, at, _ in found}
    is_one = len({*documents.values()}) < 2
    return Reply.of_list(
        Item(said if is_one else f"{documents[at]}: {said.rstrip('.')}", at, said) for *_, at, said in found
    )


def _entries(passages: Sequence[Passage]) -> Iterator[_Entry]:
    for at, passage in enumerate(passages):
        done = next(filter(_DONE_BELOW.fullmatch, passage.context.split(" > ")[-1:]), "")
        version = next(filter(_is_version, reversed(passage.context.split(" > "))), "")
        lists = [entry for each in lists_in(passage.text) for entry in each]
        last = -1
        for start, end in split_sentences(passage.text):
            entry = next((one for one in lists if one.start <= start < one.end), None)
            if entry and entry.start == last:
                continue
            last = entry.start if entry else -1
            said = on_one_line(entry.text if entry else passage.text[start:end])
            if _DONE_BELOW.fullmatch(said):
                done = said.strip("#-=*_: ")
                continue
            if _is_version(said):
                said, done = (version := said.strip("#-=*_ ")), ""
            elif entry is None and not done and not _BEGINS.match(said):
                continue  # prose, of a contract that has versions
            yield _Entry(at, version, said, done)


def _says(said: str, done: str, wanted: set[str], context: str) -> bool:
    """Whether an entry has all words, but those known of its document; or others for the same.

    It has one that does not only say what was done.
    """
    said = _NOT_DONE.sub("", said)
    there, lacking = stems_of(said, done), missing(wanted, said)
    if wanted - _CHANGING <= lacking:
        return False
    lacking -= {stem for stem in lacking for alike in _ALIKE if stem in alike and there & alike}
    known = (part for part in context.split(" > ") if not _DONE_BELOW.fullmatch(part))
    return not missing(lacking, " ".join((done, *known)))


def _options(text: str) -> set[str]:
    """The options in a text, whole: `--fast` is another than `--fast-start`."""
    return set(OPTION.findall(re.sub(r"[`'\"(,/=]", " ", text)))


def _numbers(text: str) -> set[str]:
    return {number.lower().removeprefix("v") for number in _NUMBER.findall(text)}


def _numbers_of(version: str) -> set[str]:
    """The numbers in the line of a version, but not in its link, which names the one before too."""
    return _numbers(_EARLIER.sub("", _LINK.sub("", version)))


def _is_version(line: str) -> bool:
    return len(line) <= _LONGEST and _VERSION.fullmatch(line) is not None
