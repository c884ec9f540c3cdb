"""One question: its answers, word by word where that can be, and its sources."""

from typing import TYPE_CHECKING

from mbc_cli.render.consoles import out, print_json
from mbc_cli.render.reply import Saying, reply_json, show_reply, show_times, warn_of_mini

if TYPE_CHECKING:
    from mbc_cli.asking.asker import Asker
    from mbc_engine.serving.ask import Reply


def ask_one(asker: "Asker", *, question: str, as_json: bool) -> None:
    """What `mbc ask QUESTION` does."""
    if as_json:
        (reply,) = asker.ask([question])
        print_json(reply_json(reply, asker.paths, asker.loading, asker.manner.least))
        return
    reply = answer(asker, question)
    show_times(reply, asker.loading)
    warn_of_mini(asker.name)


def answer(asker: "Asker", question: str) -> "Reply":
    """Show the answer to a question and return it."""
    is_live = out.is_terminal and asker.can_be_said
    with Saying() as saying:
        (reply,) = asker.ask([question], saying if is_live else None)
    show_reply(reply, asker.showing, is_said=saying.has_begun)
    return reply
