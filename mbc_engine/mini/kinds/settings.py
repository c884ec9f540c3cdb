"""The value of a setting, from lines such as `memory: 384Mi`, `RestartSec=7` and `proxy_read_timeout 90s;`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.penalties import is_superseded
from mbc_engine.mini.word_matching import NEGATION, missing
from mbc_engine.sources import content_stems
from mbc_engine.text.characters import on_one_line

_WORD: Final = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;,\"'{}\[\]]+)"
_REMARK: Final = r"[ \t]*(?:(?:#|//)[^\n]*)?"
# `key: value`, `key = value`, and `key value;`
_LINE: Final = re.compile(
    rf"(?P<indent>[ \t]*(?:- +)*)(?:export )?[\"']?(?P<key>[A-Za-z][\w.-]*)[\"']?"
    rf"(?:[ \t]*[:=][ \t]*(?P<value>{_WORD}),?|[ \t]+(?P<nginx>{_WORD});|[ \t]+(?P<bare>[\w./-]+)){_REMARK}"
)
# A line that others are below: `limits:`, `location /billing/ {`, `[Service]`, `- name: checkout`.
_ABOVE: Final = re.compile(r"(?P<indent>[ \t]*(?:- +)*)(?:\S.*[:{][ \t]*|\[.*\][ \t]*|(?<=- )\S.*|Match .*)(?:#.*)?")
_OTHER: Final = re.compile(r"[ \t]*(?:#.*|//.*|[\])}{,;]+|---|-[ \t].*|.*[;\\\[])?[ \t]*")
_COMMENT: Final = re.compile(r"[ \t]*(?:#|//)[ \t]*(?P<said>.*)")
# Of a word in a name that is written together or in capitals.
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MADE_OF_WORDS: Final = re.compile(r"[^\W_]_[^\W_]|[a-z][A-Z]")
# What has settings, and what they do, which no line says.
_NEEDLESS: Final = stems_of(
    "setting set value configured config configuration default current currently pod container service server listen "
    "run running use used many much have"
)
_VALUES: Final = ("value", "default")  # what a line above names
_STATES: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_ENABLED: Final = stems_of("enabled on allowed permitted active activated")
_SHARE: Final = 0.7  # of the lines of a passage that is no prose


class _Setting(NamedTuple):
    """A setting, and what stands above it: the lines that it is further in than, and the comment on it."""

    key: str
    value: str
    line: str
    above: str
    passage: int


def setting(question: str, passages: Sequence[Passage], *, is_state: bool = False) -> Reply | None:
    """The value of the setting that has all words of a question in its name, the lines and names above it, or its comment.

    None if several have, with other values, or as many words of the name are not asked for. If the question is whether
    it `is_state`, as "is gzip on", Yes or No.
    """
    asked = content_stems(question)
    wanted = asked - (_ENABLED if is_state else set())
    found = [
        one
        for at, passage in enumerate(passages)
        if not is_superseded(question, passage.context)
        for one in settings_in(passage.text, at)
        if _is_asked(wanted, one, passage.context, is_state=is_state)
    ]
    values = {one.value for one in found}
    if len(values) != 1 or (is_state and (NEGATION.search(question) or found[0].value.lower() not in _STATES)):
        return None
    value, item = found[0].value, Item.quoted(found[0].line, found[0].passage)
    if is_state:
        value = "Yes" if _STATES[value.lower()] else "No"
    return Reply(value, (item,), is_certain=True)


def is_of_another_file(question: str, best: Passage, passages: Sequence[Passage]) -> bool:
    """Whether a passage of settings lacks a word of a question by which another file with settings is named."""
    lacking = missing(content_stems(question), best.said) - _NEEDLESS
    return any(missing(lacking, one.name) != lacking for one in passages if any(settings_in(one.text)))


def _is_asked(wanted: set[str], one: _Setting, context: str, *, is_state: bool) -> bool:
    """Whether a setting is what is asked for; a state may be another elsewhere, so all lines above it are asked for."""
    name = one.above.rpartition("\n")[2] if one.key in _VALUES else one.key
    named = wanted - missing(wanted, name)
    is_whole = name != one.key or stems_of(one.key.lower()) <= named  # RestartSec, as it is
    words = set() if is_whole else {stem for part in _PARTS.findall(one.key) for stem in stems_of(part)}
    others = {stem for stem in words if missing({stem}, " ".join(named))}
    if is_state:
        others = {stem for stem in others if missing({stem}, " ".join(_ENABLED))}
        if any(" " in line.rstrip(" {") and missing(wanted, line) == wanted for line in one.above.split("\n")[1:]):
            return False
    if len(others) >= (1 if is_state else len(named)) or not named:
        return False
    return missing(wanted, f"{context}\n{one.above}\n{one.line}") <= _NEEDLESS


def settings_in(text: str, passage: int = 0) -> Iterator[_Setting]:
    """The settings of a passage that consists of them."""
    lines = [line for line in text.split("\n") if line.strip()]
    are_known = [_is_setting(line) or _ABOVE.fullmatch(line) or _OTHER.fullmatch(line) for line in lines]
    if sum(map(bool, are_known)) < _SHARE * len(lines):
        return
    above: list[tuple[int, str]] = []
    comment = ""
    for line in lines:
        if remark := _COMMENT.fullmatch(line):
            comment = remark["said"]
            continue
        indent = len(line) - len(line.lstrip())
        above = [(outer, said) for outer, said in above if outer < indent]
        if found := _is_setting(line):
            key, value = found["key"], found["value"] or found["nginx"] or found["bare"]
            around = "\n".join([comment, *(said for _, said in above)])
            yield _Setting(key, value.strip("\"'"), on_one_line(line), around, passage)
        if line.lstrip().startswith("[") and _ABOVE.fullmatch(line):
            above = [(-1, line.strip())]
        elif _ABOVE.fullmatch(line):
            above.append((indent, line.strip()))
        comment = ""


def _is_setting(line: str) -> re.Match[str] | None:
    """The parts of a line with a setting; a name and a value with nothing between them only if the name is no word."""
    found = _LINE.fullmatch(line)
    return found if found and (not found["bare"] or _MADE_OF_WORDS.search(found["key"])) else None
