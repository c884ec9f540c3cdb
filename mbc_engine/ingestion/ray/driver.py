"""The driver of an ingest on Ray: files go out to readers, chunks on to encoders, records and codes into the bank."""

import os
import re
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from mbc_engine.bank import MemoryBank
from mbc_engine.errors import MBCError, ModelError
from mbc_engine.events import Event
from mbc_engine.ingestion.ray.cluster import Actors, require_ray, room_for
from mbc_engine.ingestion.ray.workers import (
    ChunkEncoder,
    Files,
    KnownParts,
    Stretch,
    known_contents,
    known_parts,
    packed,
    read_files,
    unpacked,
)
from mbc_engine.ingestion.reading import Encoded, Item
from mbc_engine.ingestion.run import BATCH_CHUNKS, Run, vanished
from mbc_engine.lm.coding import signature
from mbc_engine.load import Model
from mbc_engine.model_folder import own_models, packaged_model
from mbc_engine.text import find_files, shown

# Files that a reader takes in one go: few enough to be named when they bring it down, enough to be worth a message.
_FILES: Final = 64
# How often work is done again whose process died. Processes themselves are started anew as often as it takes.
RETRIES: Final = 3
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_ERROR: Final = re.compile(r"[\w.]+(Error|Exception): ")


def ingest_on_ray(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    prune: bool = False,
    text_column: str | None = None,
    actors: Actors | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """`ingest` by processes on Ray: the same events, and in the end the same bank.

    Ray has to be there, see `connected`. The files are read where the processes are, by their paths here; what comes
    back are records, codes and the texts of chunks.

    Args:
        model: the bank's own, which the processes load again by its name or folder.
        bank, paths, ignore, prune, text_column, stop: as in `ingest`.
        actors: what encodes; None for as many as there is room for, with a CPU each.

    Raises:
        DataError, BankError: as `ingest`.
        ModelMismatch: another model wrote the bank, or a process finds another one.
        ConfigError: Ray is not installed, or the cluster has no room.
        MBCError: processes died too often over some files, which are named, or Ray gave up.
    """
    require_ray()
    bank.require(signature(model))
    found = find_files(paths, ignore, stop=stop)
    gone = partial(vanished, bank, paths, found) if prune else None
    run = Run(model, bank, BATCH_CHUNKS, stop)
    items = _items(model, bank, found.files, text_column, actors or Actors(), run.encoded_elsewhere)
    yield from run.over(found, items, gone)


def _items(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    text_column: str | None,
    actors: Actors,
    took: Callable[[float], None],
) -> Generator[Item | Encoded, None, None]:
    """What becomes of files, in their order.

    Args:
        took: is told the seconds that encoding takes, for all actors together as if they were one.
    """
    number = room_for(actors) if actors.number is None else actors.number
    # Of few files fewer at a time, so that every actor has something to do.
    at_a_time = max(1, min(_FILES, len(paths) // (4 * number)))
    due, place = 0, 0
    for stretch in _stretches(_files(paths, bank, at_a_time), model, bank, text_column, actors, number):
        if stretch.error is not None:
            raise stretch.error
        if (stretch.number, stretch.place) != (due, place):
            break
        took(stretch.encoding / number)
        yield from stretch.items
        due, place = (due + 1, 0) if stretch.is_last else (due, place + 1)
    if missing := paths[due * at_a_time : (due + 1) * at_a_time]:
        raise _lost(missing)


def _files(paths: Sequence[Path], bank: MemoryBank, at_a_time: int) -> Iterator[Files]:
    """Files in their order, with what the bank knows of each."""
    sources: Sequence[str] = ()
    if bank.header.keeps_origins and bank.totals().documents:
        sources = [shown(os.path.realpath(path)) for path in paths]
    known = known_parts(bank, frozenset(sources)) if sources else {}
    nothing = KnownParts() if bank.header.keeps_origins else None
    for number, start in enumerate(range(0, len(paths), at_a_time)):
        span = slice(start, start + at_a_time)
        names = tuple(os.fsencode(path.absolute()) for path in paths[span])
        parts = [known.get(source, nothing) for source in sources[span]] or [nothing] * len(names)
        yield Files(number, names, tuple(parts))


def _stretches(
    every: Iterable[Files],
    model: Model,
    bank: MemoryBank,
    text_column: str | None,
    actors: Actors,
    number: int,
) -> Generator[Stretch, None, None]:
    """Stretches of files, encoded, in their order; where one is missing, processes died over it again and again."""
    import pyarrow as pa
    import ray
    import ray.data
    from ray.exceptions import RayError
    from ray.util.annotations import RayDeprecationWarning

    tables: Any = [ray.put(pa.table(packed(files))) for files in every]
    if not tables:
        return
    listed = ray.data.from_arrow_refs(tables)
    context = listed.context
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1  # every stretch goes on by itself
    context.max_errored_blocks = -1  # what is missing in the end names the files at fault, which errors do not
    context.enable_progress_bars = context.print_on_execution_start = False
    contents = None if bank.header.keeps_origins else known_contents(bank)
    needed = ray.put((model.chunker, contents, text_column))
    with warnings.catch_warnings():
        # Limits of retries: Ray means to take them no longer from 2.64 on, which we therefore do not.
        warnings.simplefilter("ignore", RayDeprecationWarning)
        dataset = listed.map_batches(
            partial(read_files, needed, actors.chunks),
            batch_size=None,
            batch_format="pyarrow",
            compute=ray.data.TaskPoolStrategy(size=actors.readers or number),
            num_cpus=0,  # where encoders take all CPUs, their files are read nevertheless
            max_retries=RETRIES,
        ).map_batches(
            ChunkEncoder,
            batch_size=None,
            batch_format="pyarrow",
            fn_constructor_args=(_findable(model), signature(model), actors.place, actors.threads),
            compute=ray.data.ActorPoolStrategy(size=number),
            num_cpus=actors.cpus,
            num_gpus=actors.gpus,
            max_restarts=-1,
            max_task_retries=RETRIES,
        )
    try:
        for table in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            yield from unpacked(table)
    except RayError as error:
        raise MBCError(
            f"Ray gave up: {_reason(str(error))}",
            hint="What was committed before is saved; run the same command again to continue.",
        ) from error


def _findable(model: Model) -> str:
    """What finds the model on another machine: the name of a model that has one everywhere, else its folder."""
    if model.folder is None:
        raise ModelError("This model lies in no folder, from which others could load it.", hint="Save it first.")
    if model.folder in (own_models() / model.name, packaged_model(model.name)):
        return model.name
    return str(model.folder.absolute())


def _reason(told: str) -> str:
    """The line of what Ray tells that says most: where it is a traceback, the error at its end."""
    lines = _COLOUR.sub("", told).splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines)[-1 if errors else 0]


def _lost(paths: Sequence[Path]) -> MBCError:
    """Says which files brought down whoever took them."""
    first, last = shown(paths[0]), shown(paths[-1])
    named = first if len(paths) == 1 else f"{len(paths)} files, {first} to {last},"
    return MBCError(
        f"The processes that took {named} died {RETRIES + 1} times in a row.",
        hint="What was committed before is saved. --verbose lets Ray say why; --engine local passes over a file that "
        "ends the process reading it.",
    )
