"""The demo on the terminal: what was asked, what was read and what the model said, and whether that is right."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mbc_cli.render.answer import place_read, unread
from mbc_cli.render.consoles import notes, out
from mbc_cli.render.reply import show_source, source_json, warn_of_mini
from mbc_cli.text import counted, near, plain, seconds, size
from mbc_engine.events import IngestFinished
from mbc_engine.metrics import exact_match

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply


@dataclass(frozen=True)
class Asked:
    """A question with its answers, what was expected, and how long it took.

    Attributes:
        reply: what was read, if the model has a reader, and what it said from memory.
        expected: the right answer.
        file: where it stands.
        seconds: from question to sources.
    """

    reply: "Reply"
    expected: str
    file: Path
    seconds: float

    @property
    def is_read_right(self) -> bool:
        """Whether what was read is an exact match, after normalisation; not if nothing was."""
        return self.reply.read is not None and exact_match(self.reply.read.text, self.expected)

    @property
    def is_recalled_right(self) -> bool:
        """The same of the answer from memory alone."""
        return exact_match(self.reply.answer or "", self.expected)

    @property
    def is_right_source(self) -> bool:
        """Whether the first source is the story that was asked about."""
        return bool(self.reply.sources) and self.reply.sources[0].path == str(self.file.resolve())


def show_start(folder: Path, done: IngestFinished) -> None:
    """What was memorised."""
    each = done.code_bytes / max(1, done.bank_documents)
    out.print(f"{done.bank_documents} made-up news stories in {near(folder)}")
    out.print(f"Memorised in {seconds(done.seconds)}: {size(done.code_bytes)} of codes, {each:.3g} bytes a story.")
    out.print("Nobody has seen them before: their names are in no story made for training.")


def show_asked(asked: Asked) -> None:
    """One question. What was read comes first, beside what is remembered."""
    reply = asked.reply
    said = ("from memory" if reply.answers.are_read else "answer", reply.answer or "", asked.is_recalled_right)
    answers = [_read(asked), said] if reply.answers.are_read else [said]
    width = max(len("expected"), *(len(label) for label, _, _ in answers))
    out.print()
    _show_line(Text(f"? {plain(reply.question)}", "bold"))
    for label, answer, is_right in answers:
        verdict = ("right", "green") if is_right else ("wrong", "red")
        _show_line(Text.assemble(f"  {label:<{width}}  {plain(answer)}  ", verdict))
    out.print(f"  {'expected':<{width}}  {plain(asked.expected)}")
    if reply.sources:
        out.print(
            Text.assemble(
                "  source    ",
                ("the right file", "green") if asked.is_right_source else ("another file", "red"),
            )
        )
        # All files were written just now: their dates tell nothing.
        source = replace(reply.sources[0], path=Path(reply.sources[0].path).name, date=None)
        show_source(" " * 12, source)


def _show_line(line: Text) -> None:
    """A line of any length, wrapped between words on a terminal."""
    out.print(line, soft_wrap=not out.is_terminal)


def _read(asked: Asked) -> tuple[str, str, bool]:
    """Where an answer was read, what it is, and whether it is right; or why there is none."""
    read = asked.reply.read
    if read is None:
        return "read", unread(asked.reply) or "", False
    named = replace(read, path=read.path and Path(read.path).name)
    return place_read(named).plain, read.text, asked.is_read_right


def show_end(asked: Sequence[Asked], loading: float, done: IngestFinished, model: str, keep: Path | None) -> None:
    """How it went, how long it took, and what to try next."""
    recalled = f"{sum(own.is_recalled_right for own in asked)} of {len(asked)}"
    sources = f"{sum(own.is_right_source for own in asked)} of {len(asked)}"
    out.print()
    if any(own.reply.answers.are_read for own in asked):
        read = f"{sum(own.is_read_right for own in asked)} of {len(asked)}"
        out.print(f"Right: {read} answers read, {recalled} from memory, {sources} sources.")
    else:
        out.print(f"{recalled} answers right, {sources} sources right.")
    answering = f"{counted(len(asked), 'answer')} {seconds(sum(own.seconds for own in asked))}"
    notes.print(f"model {seconds(loading)} · ingest {seconds(done.seconds)} · {answering}", style="dim")
    warn_of_mini(model)
    out.print()
    out.print("Now with your own files:")
    out.print("  mbc ingest ./your-notes")
    out.print('  mbc ask "..."')
    if keep is not None:
        out.print("Or more about the stories:")
        out.print(f'  mbc ask "..." --bank {near(keep / "demo.mbc")}')


def demo_json(asked: Sequence[Asked], loading: float, done: IngestFinished) -> dict[str, Any]:
    """The same as JSON; times in seconds, sizes in bytes. What was read is None where nothing answers."""
    return {
        "answers": [
            {
                "question": item.reply.question,
                "answers": {"read": item.reply.read and asdict(item.reply.read), "memory": item.reply.answer},
                "expected": item.expected,
                "right": {
                    "read": item.is_read_right if item.reply.answers.are_read else None,
                    "memory": item.is_recalled_right,
                },
                "file": str(item.file),
                "right_source": item.is_right_source,
                "sources": [source_json(source) for source in item.reply.sources],
                "seconds": item.seconds,
            }
            for item in asked
        ],
        "timings": {"model": round(loading, 4), "ingest": done.seconds},
        "bank": {
            "documents": done.bank_documents,
            "chunks": done.bank_chunks,
            "sizes": {"codes": done.code_bytes, "codebook": done.codebook_bytes, "file": done.file_bytes},
        },
    }
