"""`mbc demo`: a first look, with stories no model has seen: asked about with their files, and again without."""

import re
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from rich.text import Text

import mbc_engine
from mbc_cli.engine import load_model, require_model
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, option
from mbc_cli.program import interrupt_message
from mbc_cli.render.answer import NOT_IN_MEMORY, confidence_words, source_json
from mbc_cli.render.terminal import notes, out, print_indented, print_json
from mbc_cli.text import display_path, format_duration, format_size, pluralise, sanitise
from mbc_engine.answer import Answer
from mbc_engine.datasets.layout import QAExample, made_up_stories
from mbc_engine.errors import ConfigError
from mbc_engine.events import IngestFinished
from mbc_engine.metrics import compare

_KINDS: Final = (("Who",), ("Where",), ("How",), ("What",), ("When", "On which day"))
_QUESTIONS_PER_KIND: Final = 2
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
    """Ingest 10 made-up news stories, ask about them, delete the files and ask again.

    Works offline and leaves nothing behind.

    Examples:
      mbc demo
      mbc demo --keep stories
    """
    require_model(model, device)
    news, rows = made_up_stories(), []
    left = "Nothing is left of the demo." if keep is None else f"What was made so far is in {keep}."
    with interrupt_message(left), _folder(keep) as folder:
        files = _write(news, folder / "stories")
        began = time.perf_counter()
        loaded = load_model(model, device)
        loading = time.perf_counter() - began
        with mbc_engine.Memory(folder / "demo.mbc", loaded) as memory:
            *_, done = memory.add([folder / "stories"])
            assert isinstance(done, IngestFinished)
            if not json:
                _show_ingest(folder, done)
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
        sizes = {"codes": done.code_bytes, "words": done.word_bytes, "texts": done.text_bytes}
        sizes |= {"codebook": done.codebook_bytes, "file": done.file_bytes}
        bank = {"documents": done.bank_documents, "chunks": done.bank_chunks, "sizes": sizes}
        timings = {"model": round(loading, 4), "ingest": done.seconds}
        print_json({"answers": rows, "counts": _counts(rows), "timings": timings, "bank": bank})
    else:
        _show_end(rows, loading, done, keep)


def pick_questions(news: Sequence[QAExample]) -> list[QAExample]:
    """Up to two questions of each kind (who, where, how, what, when), spread over the stories."""
    gold: dict[tuple[str, str], list[str]] = {}
    for asked in news:
        answers = gold.setdefault((asked.text, asked.question), [])
        for answer in asked.answers:
            answers += [answer, *_with_units(answer, asked.text)]
    questions = [QAExample("", story, text, tuple(answers)) for (story, text), answers in gold.items()]
    chosen: list[QAExample] = []
    for kind in _KINDS * _QUESTIONS_PER_KIND:
        used, words = {question.text for question in chosen}, tuple(f"{word} " for word in kind)
        fitting = (own for own in questions if own not in chosen and own.question.startswith(words))
        if found := min(fitting, key=lambda own: own.text in used, default=None):
            chosen.append(found)
    return chosen


def _with_units(answer: str, story: str) -> list[str]:
    """A number with its unit, as written in the story: `58-year-old` is also right where 58 is expected."""
    number = re.escape(answer) if answer[:1].isdigit() else "(?!)"
    return list(dict.fromkeys(re.findall(rf"(?<![\w.,-]){number}[- ][\w-]+", story)))


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


def _show_ingest(folder: Path, done: IngestFinished) -> None:
    out.print(f"{done.bank_documents} made-up news stories in {display_path(folder)}")
    text = (
        f", {format_size(done.word_bytes)} of words and {format_size(done.text_bytes)} of compressed text"
        if done.text_bytes
        else ""
    )
    out.print(f"Ingested in {format_duration(done.seconds)}: {format_size(done.code_bytes)} of codes{text}.")
    _show_line("The model has never seen these stories; none of their names appear in its training data.")


def _show_answer(answer: Answer, row: Row) -> None:
    verdict = ("right", "green") if row["right"] else ("wrong", "red")
    if answer.text is None:
        verdict = ("not answered", "yellow")
    out.print()
    _show_line((f"? {sanitise(answer.question)}", "bold"))
    _show_line("  answer      ", f"{sanitise(NOT_IN_MEMORY if answer.text is None else answer.text)}  ", verdict)
    _show_line("  expected    ", sanitise(" or ".join(row["expected"])))
    if answer.text is not None and answer.confidence is not None:
        _show_line("  confidence  ", confidence_words(answer.confidence))
    if answer.sources:
        source = answer.sources[0]
        found = ("the right file", "green") if row["right_source"] else ("another file", "red")
        _show_line("  source      ", (sanitise(Path(source.path).name), "cyan"), "  ", found)
        if source.sentence:
            print_indented(source.sentence, by=_INDENT)


def _show_line(*parts: str | tuple[str, str] | Text) -> None:
    out.print(Text.assemble(*parts))


def _show_end(rows: list[Row], loading: float, done: IngestFinished, keep: Path | None) -> None:
    counts, total = _counts(rows), len(rows)
    answering = f"{pluralise(total, 'answer')} {format_duration(sum(row['seconds'] for row in rows))}"
    out.print(
        f"\nAnswers: {counts['right']} right, {counts['wrong']} wrong, {counts['not_answered']} not answered.\n"
        f"Sources: {counts['right_sources']} of {total} right.\n"
        f"With the files deleted, the same answers from the bank alone: {counts['same_without_files']} of {total}."
    )
    notes.print(f"model {format_duration(loading)} · ingest {format_duration(done.seconds)} · {answering}", style="dim")
    out.print('\nNow with your own files:\n  mbc ingest ./your-notes\n  mbc ask "..."')
    if keep is not None:
        out.print(f'Or ask more about the stories:\n  mbc ask "..." --bank {display_path(keep / "demo.mbc")}')
