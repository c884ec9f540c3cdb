"""Lines typed on a terminal, with arrow keys and a history that outlives the session, where there is `readline`."""

import sys
from collections.abc import Sequence
from typing import Final

from mbc_cli.asking.question_history import QuestionHistory
from mbc_cli.render.consoles import notes

try:
    import readline
except ImportError:  # not every system has it
    readline = None  # type: ignore[assignment]

PROMPT: Final = "? "


class LineEditor:
    """Call it for the next line.

    Args:
        history: what was typed before, and keeps what is typed.
        words: what the tab key completes at the beginning of a line.
    """

    def __init__(self, history: QuestionHistory, words: Sequence[str] = ()) -> None:
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
        if readline.get_current_history_length() > before:  # not where it is empty, or the same again
            self._history.add(line)
        return line

    def _set_up(self) -> None:
        readline.set_auto_history(True)
        readline.set_completer_delims("")
        readline.set_completer(self._completed)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        for line in self._history.read():
            readline.add_history(line)

    def _completed(self, typed: str, number: int) -> str | None:
        fitting = [word for word in self._words if word.startswith(typed)]
        return fitting[number] if typed and number < len(fitting) else None
