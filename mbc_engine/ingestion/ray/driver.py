"""Files encoded on Ray: they go out to actors in their order, and come back as documents with codes."""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Sequence
from pathlib import Path
from typing import Any, Final

from mbc_engine.bank import MemoryBank
from mbc_engine.config import own_models, packaged_model
from mbc_engine.errors import MBCError, ModelError
from mbc_engine.ingestion.ray import Actors, room_for
from mbc_engine.ingestion.ray.encoder import EncodingActor
from mbc_engine.ingestion.reading import Item
from mbc_engine.lm.coding import signature
from mbc_engine.load import Model
from mbc_engine.text import printable_path

# Files that an actor takes in one go: few enough to be named when they bring it down, enough to be worth a message.
_FILES: Final = 64
# How often work is done again whose process died.
RETRIES: Final = 3
# Tasks of an actor, done or not, and batches that wait in one.
_TASKS: Final = 2
_BATCHES: Final = 4
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_ERROR: Final = re.compile(r"[\w.]+(Error|Exception): ")


def encode_files(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    text_column: str | None,
    actors: Actors,
    encoded: Callable[[float], None],
) -> Generator[Item, None, None]:
    """The documents of files, in their order, with codes. Ray has to be there, see `connected`.

    The files are read where the actors are, by their paths here, and the model is loaded there by its name or folder.

    Args:
        encoded: gets the seconds that encoding takes, for all actors together as if they were one.

    Raises:
        ModelMismatch: an actor finds another model.
        ConfigError: the cluster has no room.
        MBCError: actors died too often over some files, which are named, or Ray gave up.
    """
    import ray
    from ray.exceptions import RayActorError, RayError

    number = room_for(actors) if actors.number is None else actors.number
    # Of few files fewer at a time, so that every actor has something to do.
    at_a_time = max(1, min(_FILES, len(paths) // (4 * number)))
    parts = _parts(bank, {printable_path(path.resolve()) for path in paths})
    team = _start(model, bank, text_column, actors, number)
    under_way: deque[tuple[list[Path], Any]] = deque()
    starts = iter(range(0, len(paths), at_a_time))
    task = 0
    try:
        while True:
            while len(under_way) < _TASKS * number and (start := next(starts, None)) is not None:
                files = [path.absolute() for path in paths[start : start + at_a_time]]
                known = {source: parts[source] for path in files if (source := printable_path(path.resolve())) in parts}
                options = {"num_returns": "streaming", "_generator_backpressure_num_objects": _BATCHES}
                under_way.append((files, team[task % number].encode.options(**options).remote(files, known)))
                task += 1
            if not under_way:
                return
            files, batches = under_way.popleft()
            for batch in batches:
                items, seconds, error = ray.get(batch)
                if error is not None:
                    raise error
                encoded(seconds / number)
                yield from items
    except RayActorError as error:
        raise (_gave_up(error) if "creation task" in str(error) else _lost(files)) from error
    except RayError as error:
        raise _gave_up(error) from error
    finally:
        for actor in team:
            ray.kill(actor)


def _start(model: Model, bank: MemoryBank, text_column: str | None, actors: Actors, number: int) -> list[Any]:
    import ray

    contents = None if bank.header.keeps_origins else _contents(bank)
    shared = ray.put((model.chunker, contents, bank.header.digest_bytes))
    resources = {"num_cpus": actors.cpus, "num_gpus": actors.gpus}
    kind = ray.remote(EncodingActor).options(**resources, max_restarts=-1, max_task_retries=RETRIES)
    given = _findable(model), signature(model), actors.place, actors.threads, actors.chunks, text_column
    return [kind.remote(*given, shared) for _ in range(number)]


def _parts(bank: MemoryBank, sources: Collection[str]) -> dict[str, dict[str, str]]:
    """The digests of what a bank has of these sources, by source and part, in one pass over its documents."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for document in bank.documents() if bank.header.keeps_origins else ():
        for origin in document.origins:
            if origin.source in sources:
                found[origin.source][origin.part] = document.digest
    return found


def _contents(bank: MemoryBank) -> frozenset[bytes]:
    return frozenset(digest for block in bank.document_blocks() for digest in block.digests)


def _findable(model: Model) -> str:
    """What finds the model on another machine: the name of a model that has one everywhere, else its folder."""
    if model.folder is None:
        raise ModelError("This model lies in no folder, from which others could load it.", hint="Save it first.")
    if model.folder in (own_models() / model.name, packaged_model(model.name)):
        return model.name
    return str(model.folder.absolute())


def _gave_up(error: Exception) -> MBCError:
    lines = _COLOUR.sub("", str(error)).splitlines()
    errors = [line for line in lines if _ERROR.match(line)]  # at the end of a traceback
    return MBCError(
        f"Ray gave up: {errors[-1] if errors else lines[0]}",
        hint="What was committed before is saved; run the same command again to continue.",
    )


def _lost(paths: Sequence[Path]) -> MBCError:
    first, last = printable_path(paths[0]), printable_path(paths[-1])
    named = first if len(paths) == 1 else f"{len(paths)} files, {first} to {last},"
    return MBCError(
        f"The processes that took {named} died {RETRIES + 1} times in a row.",
        hint="What was committed before is saved. With --verbose Ray shows why; --engine local skips a file that "
        "ends the process reading it.",
    )
