"""`mbc demo`: a first look, at stories that no model has seen before."""

import re
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mbc_cli.options import DeviceOption, JsonOption, ModelOption

if TYPE_CHECKING:
    from mbc_engine.datasets.newswire import Story

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
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.demo import Asked, demo_json, show_asked, show_end, show_start
    from mbc_engine.datasets.newswire import stories
    from mbc_engine.events import IngestFinished

    require_model(model, device)
    told = list(stories("test", STORIES, seed=0))
    left = "Nothing is left of the demo." if keep is None else f"What was made so far is in {keep}."
    with ending_with(left), _folder(keep) as folder:
        files = _write(told, folder / "stories")
        began = time.perf_counter()
        loaded = load_model(model, device)
        from mbc_engine import Recall, ingest, open_bank

        loading = time.perf_counter() - began
        with open_bank(loaded, folder / "demo.mbc") as bank:
            *_, done = ingest(loaded, bank, [folder / "stories"])
            assert isinstance(done, IngestFinished)
            if not json:
                show_start(folder, done)
            recall, asked = Recall(loaded, bank), []
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
                again = [recall.ask([own.reply.question])[0].answer for own in asked]
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
