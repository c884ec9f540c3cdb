"""What is said, by whom and when: subtitles (SRT and WebVTT), and chats as WhatsApp exports them."""

import html
import re
from collections.abc import Iterator
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, Place, day_of

_TIME: Final = re.compile(r"((?:\d+:)?\d{1,2}:\d{2})[.,]\d{1,3}[ \t]*-->")
# Blank lines, which YouTube leaves out between some.
_BETWEEN: Final = re.compile(r"\n[ \t]*\n|(?<![\n\d])\n(?=(?:\d+\n)?[ \t]*[\d:]{4,12}[.,]\d{1,3}[ \t]*-->)")
_SPEAKER: Final = re.compile(r"<v(?:\.[^ >]*)?[ \t]+([^>]{1,100})>")
# As video calls write it in front of all that somebody says.
_NAME: Final = re.compile(r"\A([A-Z][\w.'-]*(?: [A-Z(][\w.')-]*){0,3}): (?=\S)")
_TAG: Final = re.compile(r"</?[a-zA-Z\d.:][^<>]{0,200}>|\{\\[^{}]{0,100}\}")
_END: Final = re.compile(r"[.!?…。！？][\"'”’)\]♪]*$")  # noqa: RUF001
# Passages of speech without full stops are cut anyway.
_MOST_CUES: Final = 12


def read_subtitles(stream: ByteStream) -> Iterator[Content]:
    """The text as lines `00:12:05 ANNA: What she says.`, each of whole sentences if there are any."""
    data = stream.read_all()
    lines: list[str] = []
    said, cues = "", 0
    for time, speaker, text in _cues(decode_file(data)):
        if not said or speaker or _END.search(said) or cues >= _MOST_CUES:
            lines += [said] if said else []
            said, cues = f"{time} {speaker}: " if speaker else f"{time} ", 0
            said += text
        else:
            said += f" {text}"
        cues += 1
    yield Content("\n".join([*lines, said]).strip(), data)


def _cues(text: str) -> Iterator[tuple[str, str, str]]:
    """The time, the speaker or "", and the new words of each cue: rolling captions repeat the line before."""
    shown: list[str] = []
    speaker = ""
    for block in _BETWEEN.split(text):
        lines = block.strip().split("\n")
        start = next((number for number, line in enumerate(lines[:2]) if _TIME.match(line.strip())), None)
        if start is None:
            continue
        time = _TIME.match(lines[start].strip())
        written = "\n".join(lines[start + 1 :])
        named = _SPEAKER.search(written) or _NAME.match(written)
        spoken = _NAME.sub("", written).split("\n")
        now = [" ".join(html.unescape(_TAG.sub("", line)).split()) for line in spoken]
        new = [line for line in now if line and line not in shown]
        shown = now
        if time and new:
            changed = bool(named) and named[1].strip() != speaker if named else False
            speaker = named[1].strip() if named else speaker
            yield time[1].rjust(8, "0") if time[1].count(":") == 2 else time[1], speaker * changed, " ".join(new)


_SAID: Final = re.compile(
    r"^\[?(?P<date>(\d\d?)([./-])(\d\d?)\3(\d{2}|\d{4})),? (?P<time>\d\d?[:.]\d\d)(?:[:.]\d\d)?(?P<half> ?[ap]\.? ?m\.?)?"
    r"(?:\] | - )(?:(?P<who>[^:\n]{1,80}): )?",
    re.MULTILINE | re.IGNORECASE,
)
_MARKS: Final = str.maketrans({"\u200e": None, "\ufeff": None, "\u202f": " ", "\xa0": " "})


def is_chat(beginning: bytes) -> bool:
    """Whether a text is a chat: it begins with a message, and more follow."""
    head = beginning.decode("utf-8", "replace").translate(_MARKS)
    return bool(_SAID.match(head)) and len(_SAID.findall(head)) > 1


def read_chat(stream: ByteStream) -> Iterator[Content]:
    """A paragraph for each message, as of chats in JSON.

    Days come before months unless a day shows otherwise; with am and pm, only if one shows it.
    """
    text = decode_file(stream.read_all()).translate(_MARKS)
    messages = list(_SAID.finditer(text))
    firsts, seconds = ([int(match[number]) for match in messages] for number in (2, 4))
    is_month_first = max(seconds) > 12
    is_known = is_month_first or max(firsts) > 12 or not messages[0]["half"]
    written, places, line, date = "", list[Place](), 1, None
    ends = [*(match.start() for match in messages[1:]), len(text)]
    for match, end in zip(messages, ends, strict=True):
        day, month = (match[2], match[4])[:: -1 if is_month_first else 1]
        date = f"{match[5] if len(match[5]) > 2 else f'20{match[5]}'}-{month:0>2}-{day:0>2}" if is_known else None
        when = f"{date or match['date']} {match['time']}{match['half'] or ''}"
        places.append(Place(len(written), line=line))
        written += ", ".join(filter(None, (match["who"], when))) + f": {text[match.end() : end].strip()}\n\n"
        line += text.count("\n", match.start(), end)
    yield Content(written.rstrip(), written.encode(), day_of(date), places=tuple(places))
