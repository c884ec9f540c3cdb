"""`mbc demo`: a first look, with stories no model has seen: asked about with their files, and again without."""

import re
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from rich.text import Text

from mbc_cli.command_line import interrupt_message
from mbc_cli.formatting import display_path, format_duration, format_size, pluralise, sanitise
from mbc_cli.loading import load_model, require_model
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, option
from mbc_cli.render.answer import answer_text, confidence_words, source_json
from mbc_cli.render.bank import holdings
from mbc_cli.render.terminal import notes, out, print_indented, print_json
from mbc_engine.answer import Answer
from mbc_engine.datasets.examples import QAExample, made_up_stories
from mbc_engine.errors import ConfigError
from mbc_engine.events import IngestFinished
from mbc_engine.metrics import compare

# The questions that are asked, two of each kind, and answers that also count as right.
_QUESTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Who is the transport minister at the opening in Pennbridge?": (),
    "Where can people visit the Jansen Collection?": (),
    "How long in miles is the detour from Northdon?": ("88 miles",),
    "What is the daily output of the Vega Shipping plant?": ("7,719 units",),
    "When does the council of Eagle Falls meet?": (),
    "Who saved the pigeons in Bramblehaven?": (),
    "Where was the match between Summercombe Wanderers and Alderden Wanderers played?": (),
    "How many people helped Jerome Lopez in the campaign?": ("19 helpers",),
    "What is the age of Ivana Zielinski?": ("58-year-old",),
    "On which day did Summercombe Wanderers play Alderden Wanderers?": (),
}
# So that a file's name and its verdict fit in one line of 80 columns.
_MAX_NAME_LENGTH: Final = 20
_INDENT: Final = len("  confidence  ")

# A question with its answer, as `mbc demo --json` prints it.
Row = dict[str, Any]


def demo(
    *,
    model: ModelOption,
    keep: Annotated[Path | None, option("Keep the stories and the bank in this folder.", metavar="FOLDER")] = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Ingest 10 made-up news stories, ask about them, and show that the bank still answers without the files.

    Works offline and leaves nothing behind.

    Examples:
      mbc demo
      mbc demo --keep stories
    """
    from mbc_engine.memory import Memory

    require_model(model, device)
    news, rows = made_up_stories(), []
    left = "Nothing is left of the demo." if keep is None else f"What was made so far is in {keep}."
    with interrupt_message(left), _folder(keep) as folder:
        files = _write(news, folder / "stories")
        with Memory(folder / "demo.mbc", model, device=device, load=load_model) as memory:
            *_, done = memory.add([folder / "stories"])
            assert isinstance(done, IngestFinished)
            if not json:
                held = f"{format_size(done.code_bytes)} of codes"
                if done.text_bytes:
                    held += f", {format_size(done.word_bytes)} of words"
                    held += f" and {format_size(done.text_bytes)} of compressed text"
                out.print(f"{done.bank_documents} made-up news stories in {display_path(folder)}")
                out.print(f"Ingested in {format_duration(done.seconds)}: {held}.")
                out.print("The model has never seen these stories; none of their names appear in its training data.")
            for question in pick_questions(news):
                began = time.perf_counter()
                (answer,) = memory.ask([question.question])
                rows.append(_row(answer, question, files[question.text], time.perf_counter() - began))
                if not json:
                    _show_answer(answer, rows[-1])
            for file in files.values():
                file.unlink()
            try:
                for row in rows:
                    row["without_files"] = memory.ask([row["question"]])[0].text
            finally:
                if keep is not None:
                    _write(news, folder / "stories")
    if json:
        bank = {"documents": done.bank_documents, "chunks": done.bank_chunks, "sizes": holdings(done)[1]}
        timings = {"model": round(memory.loading, 4), "ingest": done.seconds}
        print_json({"answers": rows, "counts": _counts(rows), "timings": timings, "bank": bank})
    else:
        _show_end(rows, memory.loading, done, keep)


def pick_questions(news: Sequence[QAExample]) -> list[QAExample]:
    asked = {example.question: example for example in news}
    return [replace(asked[words], answers=(*asked[words].answers, *also)) for words, also in _QUESTIONS.items()]


def as_file(story: QAExample) -> str:
    """A story as its file has it, its title on a line of its own."""
    return f"{story.title}\n\n{story.text.removeprefix(f'{story.title}. ')}\n"


def _write(news: Sequence[QAExample], folder: Path) -> dict[str, Path]:
    """Write each story into a file; returns the files by the stories' texts."""
    folder.mkdir(exist_ok=True)
    files = {}
    for number, story in enumerate({story.text: story for story in news}.values(), 1):
        title = re.sub(r"[^a-z0-9]+", " ", story.title.lower())
        name = textwrap.shorten(title, _MAX_NAME_LENGTH, placeholder="").replace(" ", "-")
        files[story.text] = folder / f"{number:02}-{name}.txt"
        files[story.text].write_text(as_file(story), encoding="utf-8")
    return files


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mbc-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise ConfigError(f"{keep} is not empty.", hint="Name a new folder.")
    except OSError as error:
        raise ConfigError(f"{keep} cannot be used: {error.strerror}", hint="Name a new folder.") from error
    yield keep


def _row(answer: Answer, question: QAExample, file: Path, spent: float) -> Row:
    text, sources = answer.text, answer.sources
    return {
        "question": question.question,
        "answer": text,
        "tentative": answer.tentative,
        "confidence": answer.confidence and answer.confidence.probability,
        "expected": list(question.answers),
        "right": text is not None and compare(text, question.answers, golds="any").exact_match,
        "file": str(file),
        "right_source": bool(sources) and sources[0].path == str(file.resolve()),
        "sources": [source_json(source) for source in sources],
        "seconds": round(spent, 3),
    }


def _counts(rows: list[Row]) -> dict[str, int]:
    right, not_answered = sum(row["right"] for row in rows), sum(row["answer"] is None for row in rows)
    return {
        "right": right,
        "wrong": len(rows) - right - not_answered,
        "not_answered": not_answered,
        "right_sources": sum(row["right_source"] for row in rows),
        "same_without_files": sum(row["answer"] == row["without_files"] for row in rows),
    }


def _show_answer(answer: Answer, row: Row) -> None:
    verdict = ("right", "green") if row["right"] else ("wrong", "red")
    if answer.text is None:
        verdict = ("not answered", "yellow")
    out.print(Text(f"\n? {sanitise(answer.question)}", "bold"))
    out.print(Text.assemble("  answer      ", sanitise(answer_text(answer)), "  ", verdict))
    out.print(Text(f"  expected    {sanitise(' or '.join(row['expected']))}"))
    if answer.text is not None and answer.confidence is not None:
        out.print(Text.assemble("  confidence  ", confidence_words(answer.confidence)))
    if answer.sources:
        source = answer.sources[0]
        which = ("the right file", "green") if row["right_source"] else ("another file", "red")
        out.print(Text.assemble("  source      ", (sanitise(Path(source.path).name), "cyan"), "  ", which))
        if source.sentence:
            print_indented(source.sentence, by=_INDENT)


def _show_end(rows: list[Row], loading: float, done: IngestFinished, keep: Path | None) -> None:
    counts, total = _counts(rows), len(rows)
    out.print(
        f"\nAnswers: {counts['right']} right, {counts['wrong']} wrong, {counts['not_answered']} not answered.\n"
        f"Sources: {counts['right_sources']} of {total} right.\n"
        f"With the files deleted, the same answers from the bank alone: {counts['same_without_files']} of {total}."
    )
    answering = f"{pluralise(total, 'answer')} {format_duration(sum(row['seconds'] for row in rows))}"
    notes.print(f"model {format_duration(loading)} · ingest {format_duration(done.seconds)} · {answering}", style="dim")
    out.print('\nNow with your own files:\n  mbc ingest ./your-notes\n  mbc ask "..."')
    if keep is not None:
        out.print(f'Or ask more about the stories:\n  mbc ask "..." --bank {display_path(keep / "demo.mbc")}')
