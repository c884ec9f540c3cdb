"""Re-encodes a bank with another model, from its documents' files or the text it keeps."""

import os
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from mbc_engine.bank import EncodedText, MemoryBank, database
from mbc_engine.bank.exchange import replace_content
from mbc_engine.bank.text_codec import decode_found
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import Event, IngestStarted
from mbc_engine.ingestion.ingest import BATCH_CHUNKS, Run
from mbc_engine.ingestion.workers import ChunkedDocument, Item, digests_by_source, file_size, read_all
from mbc_engine.lm.packaged import require_text_model
from mbc_engine.model import Model, open_bank
from mbc_engine.sources import text_model
from mbc_engine.text import Chunk, Document, Skipped, without_piece_number
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.context import encoded_parts
from mbc_engine.text.decoding import split_suffixes
from mbc_engine.text.formats import SUFFIXES

# A source and a part of it.
Name = tuple[str, str]
# Documents looked up in a bank at a time.
_LOOKUP_BATCH: Final = 256


def reencode(
    model: Model, path: Path, *, drop_missing: bool = False, workers: int = 0, stop: threading.Event | None = None
) -> Iterator[Event]:
    """Re-encode the bank at `path` with `model`; options and events as in `ingest`.

    The new bank grows in a file beside the old one, which is replaced at the end. After a stop or a kill, the same call
    continues. Changed files are memorised as they are now; documents no longer in any file, from the text in the bank,
    if it keeps it. With `drop_missing`, documents that can no longer be read are dropped.
    Raises BankError if the bank keeps no origins, or some of its documents can no longer be read.
    """
    digests, keeps_text, text_lm = _contents(path)
    wanted = {(source, part) for source, parts in digests.items() for part in parts}
    files = [Path(source) for source in sorted(digests) if os.path.isfile(source)]
    if text_lm and len(files) < len(digests):  # known now, not after hours of reading
        require_text_model(text_lm)
    yield IngestStarted(len(files), sum(map(file_size, files)))

    def require_unchanged() -> None:
        if _contents(path)[0] != digests:
            raise BankError(f"{path} was changed meanwhile.", hint="Run this again to continue.")

    beside = database.beside(path, "reencoding")
    with _open_beside(model, beside, keeps_text=keeps_text) as new:
        run, chunker = Run(model, new, BATCH_CHUNKS, stop), model.chunker.leaving(new.header.context_tokens)
        for source in () if keeps_text else sorted({*digests} - {*map(str, files)}):
            yield run.skipped(Skipped(source, "is gone"))
        damaged: set[str] = set()
        yield from run.memorise(_only(read_all(files, new, chunker, workers=workers), wanted, damaged))
        if run.is_complete and keeps_text:
            yield from run.memorise(_from_texts(path, _missing(wanted, new, damaged), chunker))
        if not run.is_complete:
            yield run.summary()
            return
        # Documents that were removed from the old bank since an earlier, unfinished call.
        documents = set(map(_whole, wanted))
        new.remove({origin[:2] for origin in new.origins() if _whole(origin[:2]) not in documents})
        if (missing := len(_missing(wanted, new, damaged))) and not drop_missing:
            require_unchanged()
            raise BankError(
                f"{missing} of {len(wanted)} documents can no longer be read; {path} is unchanged.",
                hint="Restore their files and run this again, or drop them with --drop-missing.",
            )
        finished = run.summary()

    replace_content(path, beside, check=require_unchanged)
    database.delete(beside)
    yield finished


def _contents(path: Path) -> tuple[dict[str, dict[str, str]], bool, str]:
    """All digests in a bank, by source and part; whether it keeps text, and the language model of texts, or ""."""
    with MemoryBank.open(path, read_only=True) as bank:
        if not bank.header.keeps_origins:
            raise BankError(
                f"{path} does not know where its documents came from.", hint="Ingest them again into another bank."
            )
        texts = bank.text_state()
        return digests_by_source(bank), bank.header.keeps_text, texts.lm if texts.lm_texts else ""


def _open_beside(model: Model, path: Path, *, keeps_text: bool) -> MemoryBank:
    """The bank begun earlier, if for this model and with texts as here; otherwise a new one."""
    with suppress(ModelMismatch):
        bank = open_bank(model, path, keeps_text=keeps_text)
        if (bank.header.keeps_text, bank.header.context_tokens) == (keeps_text, model.context_tokens):
            return bank
        bank.close()
    database.delete(path)
    return open_bank(model, path, keeps_text=keeps_text)


def _whole(name: Name) -> Name:
    """The document that a name is a piece of, or the name itself: the size of pieces may have changed."""
    source, part = name
    format = SUFFIXES.get(split_suffixes(source)[0])
    has_rows = format is not None and format.name == "row"
    return source, "" if part.isdecimal() and not has_rows else without_piece_number(part)


def _missing(wanted: set[Name], bank: MemoryBank, damaged: Collection[str]) -> list[Name]:
    """The names that a bank lacks, even as other pieces; in damaged files, each piece counts."""
    names = {origin[:2] for origin in bank.origins()}
    documents = {_whole(name) for name in names if name[0] not in damaged}
    return sorted(name for name in wanted - names if _whole(name) not in documents)


def _only(
    items: Generator[Item | None, None, None], wanted: set[Name], damaged: set[str]
) -> Generator[Item | None, None, None]:
    """Drop documents that the old bank lacks; add the sources of what cannot be read to `damaged`."""
    documents = set(map(_whole, wanted))
    with closing(items):
        for item in items:
            if isinstance(item, ChunkedDocument) and item.chunks:
                if _whole((item.document.source, item.document.part)) not in documents:
                    continue
            elif isinstance(item, Skipped):
                damaged.add(item.source)
            yield item


def _from_texts(path: Path, names: Sequence[Name], chunker: Chunker) -> Generator[Item, None, None]:
    with MemoryBank.open(path, read_only=True) as old:
        for start in range(0, len(names), _LOOKUP_BATCH):
            wanted = set(names[start : start + _LOOKUP_BATCH])
            for stored in old.lookup(wanted, with_texts=True):
                encoded = [text for text in stored.texts or () if isinstance(text, EncodedText)]
                texts = decode_found(encoded, str(path), text_model)
                headed = (
                    chunk._replace(headings=stored.outline.of_chunk(ordinal))
                    for ordinal, chunk in enumerate(texts)
                    if chunk
                )
                chunks = tuple(part for chunk in headed for part in _fitting(chunk, chunker))
                title = stored.outline.title
                for origin in stored.origins:
                    if origin[:2] in wanted:
                        source, part, date = origin
                        document = Document(source, part, "", stored.digest, stored.size or 0, date, title)
                        contexts = chunker.contexts(source, title, chunks, encoded_parts)
                        yield ChunkedDocument(document, 0, chunks, tuple(contexts))


def _fitting(chunk: Chunk, chunker: Chunker) -> list[Chunk]:
    """A chunk as it is, or cut if it does not fit the window of the new model."""
    if chunker.token_counts([chunk.text])[0] <= chunker.capacity:
        return [chunk]
    return [Chunk(part.text, chunk.start + part.start, chunk.headings) for part in chunker.chunks(chunk.text)]
