"""`mbc ask`: a question to a bank."""

import time
from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption, ModelOption, ReadOption


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    *,
    bank: BankOption,
    model: ModelOption,
    read: ReadOption = None,
    sources: Annotated[int, typer.Option(min=1, help="How many documents to name.")] = 3,
    beams: Annotated[int, typer.Option(min=1, help="Width of the beam search; 1 takes the likeliest word.")] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 16,
    json: JsonOption = False,
) -> None:
    """Answer a question from a bank and name the documents the answer came from.

    The answer is the first line of stdout.

    \b
    Examples:
      mbc ask "Who repaired the bridge?"
      mbc ask "When was it built?" --bank work.mbc --sources 5 --json
    """
    from mbc_cli.engine import load_model
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.reply import reply_json, show_reply
    from mbc_engine.bank import MemoryBank
    from mbc_engine.errors import ConfigError

    question = question.encode(errors="replace").decode()
    if not question.strip():
        raise ConfigError("The question is empty.", hint='Ask like this: mbc ask "Who won the race?"')
    began = time.perf_counter()
    with MemoryBank.open(bank, read_only=True) as memory:
        loaded = load_model(model)
        from mbc_engine.serving.ask import Recall

        ready = time.perf_counter()
        reply = Recall(loaded, memory).ask(
            [question],
            read_mode=read,
            sources=sources,
            max_new_tokens=max_tokens,
            beams=beams,
        )[0]
    if json:
        print_json(reply_json(reply, memory.name, ready - began))
    else:
        show_reply(reply, model, ready - began)
