"""What is wrong, and what to do about it."""

from rich.text import Text

from mbc_cli.text import plain
from mbc_engine.errors import MBCError


def told(message: str, *hints: str | None) -> Text:
    """What is wrong, and what to do, a line each. All of it may be foreign text."""
    return Text("\n").join([Text(plain(message), "bold"), *(Text(plain(hint)) for hint in hints if hint)])


def told_trouble(trouble: MBCError) -> Text:
    """An error of the engine and its way out."""
    return told(trouble.message, trouble.hint)


def told_no_bank(trouble: MBCError) -> Text:
    """Why there is no bank to see, its way out, and the ways out there are here."""
    return told(trouble.message, trouble.hint, "Fill one in Ingest (4), or try `mbc demo`.")
