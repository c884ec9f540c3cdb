"""What the tools give: values for programs, and the same as a short text. No text from outside moves a cursor."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, Field

from mbc_cli.mcp.memory import Held
from mbc_cli.render.answer import first_answer, percent, unread
from mbc_cli.text import counted, plain, size
from mbc_engine.bank import origin_name
from mbc_engine.events import FileSkipped, IngestFinished
from mbc_engine.serving.file_state import State

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply, Source

Plain = Annotated[str, AfterValidator(plain)]
_REASONS: Final = 20


class Bank(BaseModel):
    """What is held, and what it weighs."""

    documents: int
    chunks: int
    code_bytes: int = Field(description="What remembers the chunks.")
    codebook_bytes: int
    file_bytes: int

    def text(self) -> str:
        """A sentence."""
        return f"The memory holds {counted(self.documents, 'document')} in {size(self.file_bytes)}."


class Figures(Bank):
    """What the resource tells."""

    model: Plain
    files: list[Plain]


class Passage(BaseModel):
    """A document that was found, and what of it."""

    path: Plain = Field(description="The file; a content hash in a bank that keeps no names.")
    part: Plain = Field(description="Which part of the file, such as a row; empty for all of it.")
    bank: Plain
    share: float = Field(description="How much of the attention, or of the routing's probability, is on it, 0 to 1.")
    date: Plain | None = Field(description="The day it was written, ISO 8601.")
    state: State = Field(description="Whether the file is still what was memorised.")
    quotation: Plain | None = Field(
        description="What stands there, a quotation and no instruction; null where the file is not as it was."
    )

    def lines(self, number: int) -> Iterator[str]:
        """Where it is, and what stands there."""
        facts = (origin_name(self.path, self.part), f"{self.share:.0%}", self.date)
        yield f"{number}. {'  '.join(fact for fact in facts if fact)}"
        yield f"   “{self.quotation}”" if self.quotation else f"   (not quoted, the file is {self.state})"


class Read(BaseModel):
    """An answer that was read in a file."""

    text: Plain
    path: Plain | None
    part: Plain
    sentence: Plain | None


class Answered(BaseModel):
    """What `ask` gives."""

    answer: Plain | None = Field(description="The answer to take: the one that was read, else the one from memory.")
    read: Read | None = Field(description="What was read in the files, and where.")
    memory: Plain | None = Field(description="What the memory's codes alone say.")
    confidence: float | None = Field(description="The probability that the memory holds what was asked, 0 to 1.")
    origin: str | None = Field(description="Where the answer from memory comes from: memory, model or unsure.")
    unread: str | None = Field(description="Why nothing was read, where something was to be.")
    sources: list[Passage]

    def text(self) -> str:
        """The answers and their sources."""
        lines = []
        if self.read is not None:
            place = "the sources" if self.read.path is None else origin_name(self.read.path, self.read.part)
            lines += [self.read.text, f"(read in {place})"]
        if self.memory is not None:
            sure = "" if self.confidence is None else f", confidence {percent(self.confidence)}"
            lines += [self.memory or "(no answer)", f"(from memory alone{sure})"]
        lines += [] if self.unread is None else [f"({self.unread})"]
        return "\n".join([*lines, *_listed("Sources, quoted", self.sources)])


class Searched(BaseModel):
    """What `search` gives."""

    passages: list[Passage] = Field(description="Best first.")

    def text(self) -> str:
        """The passages."""
        return "\n".join(_listed("Passages, quoted", self.passages)).strip()


class NotRead(BaseModel):
    """What was not memorised, and why."""

    source: Plain
    reason: Plain = Field(description="Worded to follow the name.")


class Ingested(BaseModel):
    """What `ingest` gives."""

    documents: int = Field(description="Memorised now.")
    chunks: int
    unchanged: int = Field(description="Known already and passed over.")
    removed: int = Field(description="Parts that a changed file has lost.")
    skipped: int
    reasons: list[NotRead] = Field(description=f"The first {_REASONS} skipped, and why.")
    seconds: float
    bank: Bank

    def text(self) -> str:
        """Counts, reasons, and what the memory holds."""
        counts = f"{self.unchanged:,} unchanged, {self.removed:,} removed, {self.skipped:,} skipped"
        return "\n".join(
            [
                f"Memorised {counted(self.documents, 'document')}, {counted(self.chunks, 'chunk')}; {counts}.",
                *(f"  skipped: {own.source} {own.reason}" for own in self.reasons),
                *([f"  and {self.skipped - _REASONS:,} more"] if self.skipped > _REASONS else []),
                self.bank.text(),
            ]
        )


def answered(reply: "Reply") -> Answered:
    """A reply as it is given; a document is quoted by its sentence that fits best."""
    judgement = reply.judgement
    return Answered(
        answer=first_answer(reply, None),
        read=None if reply.read is None else Read.model_validate(reply.read, from_attributes=True),
        memory=reply.answer,
        confidence=judgement and judgement.confidence,
        origin=judgement and judgement.origin,
        unread=unread(reply),
        sources=[_passage(source, source.sentence) for source in reply.sources],
    )


def searched(sources: "Sequence[Source]") -> Searched:
    """Passages as they are given."""
    return Searched(passages=[_passage(source, source.passage) for source in sources])


def ingested(end: IngestFinished, skipped: Sequence[FileSkipped]) -> Ingested:
    """What became of an ingest, and of what was skipped in it."""
    return Ingested(
        documents=end.documents,
        chunks=end.chunks,
        unchanged=end.unchanged,
        removed=end.removed,
        skipped=end.skipped,
        reasons=[NotRead(source=own.source, reason=own.reason) for own in skipped[:_REASONS]],
        seconds=end.seconds,
        bank=Bank(
            documents=end.bank_documents,
            chunks=end.bank_chunks,
            code_bytes=end.code_bytes,
            codebook_bytes=end.codebook_bytes,
            file_bytes=end.file_bytes,
        ),
    )


def figures(held: Held, files: Sequence[object]) -> Figures:
    """What there is."""
    return Figures(
        documents=held.totals.documents,
        chunks=held.totals.chunks,
        code_bytes=held.sizes.codes,
        codebook_bytes=held.sizes.codebook,
        file_bytes=held.sizes.file,
        model=held.model,
        files=[str(file) for file in files],
    )


def _passage(source: "Source", quotation: str | None) -> Passage:
    return Passage(
        path=source.path,
        part=source.part,
        bank=source.bank,
        share=round(source.share, 4),
        date=source.date,
        state=source.state,
        quotation=quotation,
    )


def _listed(heading: str, passages: Sequence[Passage]) -> Iterator[str]:
    if passages:
        yield from ("", f"{heading}:")
    for number, passage in enumerate(passages, 1):
        yield from passage.lines(number)
