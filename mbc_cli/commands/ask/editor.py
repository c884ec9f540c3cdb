"""Lines typed on a terminal, with arrow keys and a history that outlives the session, where there is `readline`."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mbc_cli.render.consoles import notes

try:
    import readline
except ImportError:  # not every system has it
    readline = None  # type: ignore[assignment]

PROMPT: Final = "? "
_LONGEST_HISTORY: Final = 1000


class LineEditor:
    """Call it for the next line.

    Args:
        history: a file that only its owner can read; nothing is kept where it cannot be written.
        words: what the tab key completes at the beginning of a line.
    """

    def __init__(self, history: Path, words: Sequence[str] = ()) -> None:
        self._history, self._words = history, words
        if readline is not None:
            self._set_up()

    def __call__(self) -> str:
        """The next line; "" for one that was begun and given up with Ctrl-C.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: on Ctrl-C where nothing was typed.
        """
        if not sys.stdout.isatty():  # the prompt must not stand among the answers
            notes.print(PROMPT, end="")
            return input()
        if readline is None:
            return input(PROMPT)
        before = readline.get_current_history_length()
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            if not readline.get_line_buffer():
                raise
            notes.print()
            return ""
        if added := readline.get_current_history_length() - before:
            self._keep(added)
        return line

    def _set_up(self) -> None:
        readline.set_auto_history(True)
        readline.set_history_length(_LONGEST_HISTORY)
        readline.set_completer_delims("")
        readline.set_completer(self._completed)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        with suppress(OSError):
            readline.read_history_file(self._history)

    def _completed(self, typed: str, number: int) -> str | None:
        fitting = [word for word in self._words if word.startswith(typed)]
        return fitting[number] if typed and number < len(fitting) else None

    def _keep(self, added: int) -> None:
        """Write at once: a terminal that is closed leaves no time for it."""
        with suppress(OSError):
            self._history.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_CREAT | os.O_RDWR, 0o600))
            self._history.chmod(0o600)
            if hasattr(readline, "append_history_file"):
                readline.append_history_file(added, self._history)
            else:
                readline.write_history_file(self._history)
