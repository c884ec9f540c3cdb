"""Subtitles (SRT and WebVTT): what is said, by whom, with the time at which a passage begins."""

import html
import re
from collections.abc import Iterator
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content

_TIME: Final = re.compile(r"((?:\d+:)?\d{1,2}:\d{2})[.,]\d{1,3}[ \t]*-->")
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
    for block in re.split(r"\n[ \t]*\n", text):
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
