"""The demo on the terminal: what was asked, what the model said, and whether that is right."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mbc_cli.render.consoles import notes, out
from mbc_cli.render.reply import show_source, source_json, warn_of_mini
from mbc_cli.render.text import counted, near, plain, seconds, size
from mbc_engine.events import IngestFinished
from mbc_engine.metrics import exact_match

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply


@dataclass(frozen=True)
class Asked:
    """A question with its answer, what was expected, and how long it took.

    Attributes:
        reply: what the model said.
        expected: the right answer.
        file: where it stands.
        seconds: from question to sources.
    """

    reply: "Reply"
    expected: str
    file: Path
    seconds: float

    @property
    def answer(self) -> str:
        """What the model said, from memory alone."""
        return self.reply.answer or ""

    @property
    def is_right(self) -> bool:
        """Exact match, after normalisation."""
        return exact_match(self.answer, self.expected)

    @property
    def is_right_source(self) -> bool:
        """Whether the first source is the story that was asked about."""
        return bool(self.reply.sources) and self.reply.sources[0].path == str(self.file.resolve())


def show_start(folder: Path, done: IngestFinished) -> None:
    """What was memorised."""
    each = done.code_bytes / max(1, done.bank_documents)
    out.print(
        f"{counted(done.bank_documents, 'made-up news story').replace('storys', 'stories')} in {near(folder)}, "
        f"memorised in {seconds(done.seconds)}: {size(done.code_bytes)} of codes, {each:.3g} bytes a story."
    )
    out.print("Nobody has seen them before: their names are kept out of all stories that models are trained on.")


def show_asked(asked: Asked) -> None:
    """One question."""
    right, wrong = ("right", "green"), ("wrong", "red")
    out.print()
    out.print(Text(f"? {plain(asked.reply.question)}", "bold"))
    out.print(Text.assemble(f"  answer    {plain(asked.answer)}  ", right if asked.is_right else wrong))
    out.print(f"  expected  {plain(asked.expected)}")
    if asked.reply.sources:
        out.print(
            Text.assemble(
                "  source    ",
                ("the right file", "green") if asked.is_right_source else ("another file", "red"),
            )
        )
        source = asked.reply.sources[0]
        show_source(" " * 12, replace(source, path=Path(source.path).name))


def show_end(asked: Sequence[Asked], loading: float, done: IngestFinished, model: str, keep: Path | None) -> None:
    """How it went, how long it took, and what to try next."""
    answers = ", ".join(seconds(item.seconds) for item in asked)
    out.print()
    out.print(
        f"{sum(item.is_right for item in asked)} of {len(asked)} answers right, "
        f"{sum(item.is_right_source for item in asked)} of {len(asked)} sources right."
    )
    notes.print(f"model {seconds(loading)} · ingest {seconds(done.seconds)} · answers {answers}", style="dim")
    warn_of_mini(model)
    out.print()
    out.print("Now with your own files:")
    out.print("  mbc ingest ./your-notes")
    out.print('  mbc ask "..."')
    if keep is not None:
        out.print("Or more about the stories:")
        out.print(f'  mbc ask "..." --bank {near(keep / "demo.mbc")}')


def demo_json(asked: Sequence[Asked], loading: float, done: IngestFinished) -> dict[str, Any]:
    """The same as JSON; times in seconds, sizes in bytes."""
    return {
        "answers": [
            {
                "question": item.reply.question,
                "answer": item.answer,
                "expected": item.expected,
                "right": item.is_right,
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
