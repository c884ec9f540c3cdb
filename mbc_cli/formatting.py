"""Text for display: sanitised untrusted text; short sizes, times and paths."""

import os
import re
import time
from pathlib import Path

# Control characters (C0, DEL, C1), characters that reorder or hide text (bidirectional overrides, tags, line
# separators) or are not seen, and lone surrogates, which cannot be printed at all.
_HARMFUL = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\uffa0\U000e0100-\U000e01ef"
)
# Pictures and some scripts need these after a character that is not ASCII, or in the keys 0\ufe0f\u20e3 to 9\ufe0f\u20e3.
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
_NEEDS_THEM = f"[^ -~{_HARMFUL}{_JOINERS}]"
_AT_ONCE = 1 << 16  # characters; until all are replaced, each that is takes some 80 bytes
_UNSAFE = re.compile(f"[{_HARMFUL}]|(?<!{_NEEDS_THEM})(?<!{_NEEDS_THEM}\ufe0f)[{_JOINERS}](?!\u20e3)")


def sanitise(text: object) -> str:
    """Untrusted text as one line that is safe to print: control characters are shown, not obeyed.

    Tabs and line ends become spaces, other control characters their pictures (␛ for ESC) or `<U+202E>`.
    """
    text = str(text)
    parts = (text[start : start + _AT_ONCE] for start in range(0, len(text), _AT_ONCE))
    return "".join(_UNSAFE.sub(_picture, part) for part in parts)


def _picture(unsafe: re.Match[str]) -> str:
    character = unsafe[0]
    code = ord(character)
    if character in "\t\n\r":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"


def format_size(count: int) -> str:
    """A byte count in human-readable units, powers of 1,000."""
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def format_duration(value: float) -> str:
    """A duration: `0.12 s`, `34 s`, `5 min 02 s`, `3 h 07 min`."""
    if value < 10:
        return f"{value:.2f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def format_time_left(value: float) -> str:
    """An estimate of a duration: `8 s`, `5 min 02 s`."""
    return format_duration(value) if value >= 10 else f"{round(value)} s"


def format_moment(stamp: float | None) -> str:
    """A local time, without seconds; "" if it is not known."""
    return "" if stamp is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))


def pluralise(count: int, noun: str) -> str:
    """`1 file`, `1,234 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_bytes_per_chunk(count: int, chunks: int) -> str:
    """Bytes shared among chunks: `27 bytes a chunk`, `1,234 bytes a chunk`."""
    each = count / chunks
    return f"{each:.3g} bytes a chunk" if each < 100 else f"{each:,.0f} bytes a chunk"


def display_path(path: Path | str) -> str:
    """A path, perhaps with `#part`, sanitised, and relative to the working folder if inside it."""
    try:
        here = f"{Path.cwd()}{os.sep}"
    except FileNotFoundError:  # the working folder was deleted
        here = ""
    return sanitise(os.fspath(path).removeprefix(here))
