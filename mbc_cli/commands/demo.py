"""`mbc demo`: a first look, at stories that no model has seen before.

The demo on the terminal: questions with their answers, whether these are right, and what stays without the files.
"""

import re
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from mbc_cli.options import DeviceOption, JsonOption, ModelOption
from mbc_cli.render.answer import NOT_IN_MEMORY, confidence_words, source_json
from mbc_cli.render.terminal import notes, out, print_indented
from mbc_cli.text import counted, near, plain, seconds, size
from mbc_engine.events import IngestFinished
from mbc_engine.metrics import compare

if TYPE_CHECKING:
    from mbc_engine.datasets.newswire import Story
    from mbc_engine.question import Answer


STORIES = 10
_KINDS: Final = (("Who",), ("Where",), ("How",), ("What",), ("When", "On which day"))
_OF_EACH: Final = 2
# So that a file's name, and what is said of it, fit into one line of 80 columns.
_LONGEST_NAME: Final = 20


def demo(
    *,
    model: ModelOption,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the stories and the bank in this folder.")
    ] = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Ingest 10 made-up news stories, ask about them, delete the files and ask again.

    Works offline and leaves nothing behind.

    \b
    Examples:
      mbc demo
      mbc demo --keep stories
    """
    from mbc_cli.engine import load_model, require_model
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.terminal import print_json
    from mbc_engine.datasets.newswire import stories
    from mbc_engine.events import IngestFinished

    require_model(model, device)
    told = list(stories("test", STORIES, seed=0))
    left = "Nothing is left of the demo." if keep is None else f"What was made so far is in {keep}."
    with ending_with(left), _folder(keep) as folder:
        files = _write(told, folder / "stories")
        began = time.perf_counter()
        loaded = load_model(model, device)
        from mbc_engine import Memory, ingest, open_bank

        loading = time.perf_counter() - began
        with open_bank(loaded, folder / "demo.mbc") as bank:
            *_, done = ingest(loaded, bank, [folder / "stories"])
            assert isinstance(done, IngestFinished)
            if not json:
                show_start(folder, done)
            recall, asked = Memory(bank, loaded), []
            for question in pick_questions(told):
                began = time.perf_counter()
                reply = recall.ask([question.text])[0]
                spent = round(time.perf_counter() - began, 3)
                asked.append(Asked(reply, question.answers, files[question.story], spent))
                if not json:
                    show_asked(asked[-1])
            for file in files.values():
                file.unlink()
            try:
                again = [recall.ask([own.reply.question])[0].text for own in asked]
            finally:
                if keep is not None:
                    _write(told, folder / "stories")
    if json:
        print_json(demo_json(asked, again, loading, done))
    else:
        show_end(asked, again, loading, done, keep)


@dataclass(frozen=True)
class Question:
    """A question about a story, given by its id, with every answer that counts as right."""

    story: str
    text: str
    answers: tuple[str, ...]


def pick_questions(told: "Sequence[Story]") -> list[Question]:
    """Up to two questions of each kind (who, where, how, what, when), each about another story as far as possible."""
    gold: dict[tuple[str, str], list[str]] = {}
    for story in told:
        for text, answer in story.questions:
            gold.setdefault((story.id, text), []).append(answer)
    questions = [Question(story, text, tuple(answers)) for (story, text), answers in gold.items()]
    chosen: list[Question] = []
    for kind in _KINDS * _OF_EACH:
        used = {question.story for question in chosen}
        fitting = (own for own in questions if own not in chosen and own.text.startswith(tuple(f"{k} " for k in kind)))
        if found := min(fitting, key=lambda own: own.story in used, default=None):
            chosen.append(found)
    return chosen


def _write(told: "Sequence[Story]", folder: Path) -> dict[str, Path]:
    """Write each story to a file named after the first words of its title; the files by the stories' ids."""
    folder.mkdir(exist_ok=True)
    files = {}
    for number, story in enumerate(told, 1):
        title = re.sub(r"[^a-z0-9]+", " ", story.title.lower())
        name = textwrap.shorten(title, _LONGEST_NAME, placeholder="").replace(" ", "-")
        files[story.id] = folder / f"{number:02}-{name}.txt"
        files[story.id].write_text(f"{story.title}\n\n{story.text}\n", encoding="utf-8")
    return files


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A folder for the demo, deleted at the end unless it is to be kept.

    Raises:
        ConfigError: the folder to keep cannot be made or is in use.
    """
    from mbc_engine.errors import ConfigError

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mbc-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        is_used = any(keep.iterdir())
    except OSError as error:
        raise ConfigError(f"{keep} cannot be used: {error.strerror}", hint="Name a new folder.") from error
    if is_used:
        raise ConfigError(f"{keep} is not empty.", hint="Name a new folder.")
    yield keep


_LABELS: Final = len("confidence")


@dataclass(frozen=True)
class Asked:
    """A question with its answer, what was expected, and how long it took.

    Attributes:
        reply: the answer, if there was one.
        expected: every right answer, one or more.
        file: the story that it stands in.
        seconds: from question to sources.
    """

    reply: "Answer"
    expected: tuple[str, ...]
    file: Path
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether there is an answer, and it matches one that was expected exactly, after normalisation."""
        answer = self.reply.text
        return answer is not None and compare(answer, self.expected, golds="any").exact_match

    @property
    def is_right_source(self) -> bool:
        """Whether the first source is the story that was asked about."""
        return bool(self.reply.sources) and self.reply.sources[0].path == str(self.file.resolve())


def show_start(folder: Path, done: IngestFinished) -> None:
    """What was ingested."""
    out.print(f"{done.bank_documents} made-up news stories in {near(folder)}")
    text = f" and {size(done.text_bytes)} of compressed text" if done.text_bytes else ""
    out.print(f"Ingested in {seconds(done.seconds)}: {size(done.code_bytes)} of codes{text}.")
    _show_line(Text("The model has never seen these stories; none of their names appear in its training data."))


def show_asked(asked: Asked) -> None:
    """One question."""
    reply = asked.reply
    if reply.text is None:
        answer, verdict = NOT_IN_MEMORY, ("not answered", "yellow")
    else:
        answer, verdict = reply.text, ("right", "green") if asked.is_right else ("wrong", "red")
    out.print()
    _show_line(Text(f"? {plain(reply.question)}", "bold"))
    _show_fact("answer", Text.assemble(f"{plain(answer)}  ", verdict))
    _show_fact("expected", Text(plain(" or ".join(asked.expected))))
    if reply.text is not None and reply.confidence is not None:
        _show_fact("confidence", confidence_words(reply.confidence))
    if reply.sources:
        source = reply.sources[0]
        verdict = ("the right file", "green") if asked.is_right_source else ("another file", "red")
        _show_fact("source", Text.assemble((plain(Path(source.path).name), "cyan"), "  ", verdict))
        if source.sentence:
            print_indented(source.sentence, by=_LABELS + 4)


def _show_fact(label: str, fact: Text) -> None:
    _show_line(Text.assemble(f"  {label:<{_LABELS}}  ", fact))


def _show_line(line: Text) -> None:
    """A line of any length, wrapped between words on a terminal."""
    out.print(line, soft_wrap=not out.is_terminal)


def show_end(
    asked: Sequence[Asked], again: Sequence[str | None], loading: float, done: IngestFinished, keep: Path | None
) -> None:
    """How it went, what the bank answered without the files, how long it took, and what to try next."""
    counts = _counts(asked, again)
    total = len(asked)
    out.print()
    out.print(f"Answers: {counts['right']} right, {counts['wrong']} wrong, {counts['not_answered']} not answered.")
    out.print(f"Sources: {counts['right_sources']} of {total} right.")
    out.print(
        f"With the files deleted, the same answers from the bank alone: {counts['same_without_files']} of {total}."
    )
    answering = f"{counted(total, 'answer')} {seconds(sum(own.seconds for own in asked))}"
    notes.print(f"model {seconds(loading)} · ingest {seconds(done.seconds)} · {answering}", style="dim")
    out.print()
    out.print("Now with your own files:")
    out.print("  mbc ingest ./your-notes")
    out.print('  mbc ask "..."')
    if keep is not None:
        out.print("Or ask more about the stories:")
        out.print(f'  mbc ask "..." --bank {near(keep / "demo.mbc")}')


def demo_json(
    asked: Sequence[Asked], again: Sequence[str | None], loading: float, done: IngestFinished
) -> dict[str, Any]:
    """The same as JSON; times in seconds, sizes in bytes. An answer is null where none was given."""
    return {
        "answers": [
            {
                "question": item.reply.question,
                "answer": item.reply.text,
                "confidence": item.reply.confidence and item.reply.confidence.probability,
                "expected": list(item.expected),
                "right": item.is_right,
                "file": str(item.file),
                "right_source": item.is_right_source,
                "sources": [source_json(source) for source in item.reply.sources],
                "seconds": item.seconds,
                "without_files": answer,
            }
            for item, answer in zip(asked, again, strict=True)
        ],
        "counts": _counts(asked, again),
        "timings": {"model": round(loading, 4), "ingest": done.seconds},
        "bank": {
            "documents": done.bank_documents,
            "chunks": done.bank_chunks,
            "sizes": {
                "codes": done.code_bytes,
                "texts": done.text_bytes,
                "codebook": done.codebook_bytes,
                "file": done.file_bytes,
            },
        },
    }


def _counts(asked: Sequence[Asked], again: Sequence[str | None]) -> dict[str, int]:
    right = sum(own.is_right for own in asked)
    withheld = sum(own.reply.text is None for own in asked)
    return {
        "right": right,
        "wrong": len(asked) - right - withheld,
        "not_answered": withheld,
        "right_sources": sum(own.is_right_source for own in asked),
        "same_without_files": sum(own.reply.text == answer for own, answer in zip(asked, again, strict=True)),
    }
