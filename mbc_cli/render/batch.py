"""The answers to many questions on the terminal, or as JSON Lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mbc_cli.render.consoles import out, print_json_lines
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.reply import reply_json, show_reply
from mbc_cli.text import counted, plain, seconds

if TYPE_CHECKING:
    from mbc_engine.datasets.questions import Question
    from mbc_engine.serving.ask import Reply


class BatchView(ProgressView):
    """Shows answers as they come.

    Args:
        banks: the files that are asked.
        loading: seconds spent on loading the model.
        total: how many questions there are, None if nobody knows.
        as_json: a line of JSON for each.
        is_shown: False where questions are typed on the terminal.
    """

    def __init__(
        self,
        banks: Sequence[Path],
        loading: float,
        *,
        total: int | None,
        as_json: bool,
        is_shown: bool,
    ) -> None:
        super().__init__(is_shown=is_shown)
        self._banks, self._loading = banks, loading
        self._total, self._as_json = total, as_json
        self.answered = 0

    def show(self, questions: "Sequence[Question]", replies: "Sequence[Reply]") -> None:
        """A batch."""
        if self._as_json:
            print_json_lines(
                {"id": question.id, **reply_json(reply, self._banks, self._loading)}
                for question, reply in zip(questions, replies, strict=True)
            )
        else:
            for reply in replies:
                self._show(reply)
        self.answered += len(replies)
        self.bar("Answering", self._total, completed=self.answered)

    def _show(self, reply: "Reply") -> None:
        out.print(Text(f"? {plain(reply.question)}", "cyan"))
        show_reply(reply, with_bank=len(self._banks) > 1)
        out.print()

    def finish(self, spent: float) -> None:
        """How long it took, apart from loading the model."""
        self.line(f"{counted(self.answered, 'question')} in {seconds(spent)} · model {seconds(self._loading)}", "dim")
