"""One question: its answer, word by word where it is generated, and its sources."""

from typing import TYPE_CHECKING

from mbc_cli.render.consoles import out, print_json
from mbc_cli.render.reply import AnswerStream, reply_json, show_reply, show_times

if TYPE_CHECKING:
    from mbc_cli.asking.asker import Asker
    from mbc_engine.serving.ask import Reply


def ask_one(asker: "Asker", *, question: str, as_json: bool) -> None:
    """What `mbc ask QUESTION` does."""
    if as_json:
        (reply,) = asker.ask([question])
        print_json(reply_json(reply, asker.paths, asker.loading))
        return
    reply = answer(asker, question)
    show_times(reply, asker.loading)


def answer(asker: "Asker", question: str) -> "Reply":
    """Show the answer to a question and return it."""
    is_live = out.is_terminal and asker.can_be_streamed
    with AnswerStream() as stream:
        (reply,) = asker.ask([question], stream if is_live else None)
    show_reply(reply, with_bank=len(asker.paths) > 1, is_streamed=stream.has_begun)
    return reply
