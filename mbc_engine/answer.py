"""A question's options, its answer, and the answer's sources, as plain data; no torch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from mbc_engine.errors import ConfigError

if TYPE_CHECKING:
    from mbc_engine.bank import BankSizes, BankTotals, CodeMap, Selection

GENERATED_TOKENS = 16


@dataclass(frozen=True)
class AskOptions:
    """How to answer questions; raises ConfigError if a number is out of range.

    Attributes:
        read_mode: for a model of the paper's method, NAME or NAME:NUMBER; None for its own.
        selection: which documents count, and how much; None for all.
        sources: documents to name for each answer; 0 saves a model of the paper's method a scan in flat reads.
        min_confidence: withhold answers below this probability; None for a retriever-reader's own threshold, below
            which an answer is unlikely to be right. One that it is not sure of is `tentative` either way.
        with_codes: also return which codes were read.
        max_new_tokens: of an answer that an LM generates or writes; None for 16, or for the chat LM's own limit.
        beams: the width of beam search; 1 is greedy.
        write: have a chat LM write a retriever-reader's answer from the passages found; None if the memory was given one.
        earlier: questions and answers of the conversation so far, for that LM, the oldest first.
    """

    read_mode: str | None = None
    selection: "Selection | None" = None
    sources: int = 3
    min_confidence: float | None = None
    with_codes: bool = False
    max_new_tokens: int | None = None
    beams: int = 1
    write: bool | None = None
    earlier: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"--min-confidence {self.min_confidence:g} is not between 0 and 1.", hint="0.9 means 90%."
            )
        for name, minimum in (("sources", 0), ("beams", 1), ("max_new_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ConfigError(
                    f"--{name.replace('_', '-')} {value} is less than {minimum}.", hint="Give a larger one."
                )


Label = Literal["high", "medium", "low", "memory", "model", "unsure"]


@dataclass(frozen=True)
class Confidence:
    """How far to trust an answer, calibrated on held-out questions.

    Attributes:
        probability: for a retriever-reader, that the answer is right; otherwise, that the bank held what was asked.
        label: for a retriever-reader, high, medium or low; otherwise, where the answer comes from.
    """

    probability: float
    label: Label


@dataclass(frozen=True)
class AnswerItem:
    """One of several parts of an answer, and the source it was found in, with its sentence there."""

    text: str
    source: "Source"


@dataclass(frozen=True)
class Answer:
    """An answer with its sources.

    Attributes:
        text: the answer; None if the model judges that it is not in this memory, or if it is withheld.
        withheld: whether an answer was found that would be shown, were it not less likely than `min_confidence`.
        tentative: whether `text` is given although the model is not sure of it.
        confidence: in the answer, withheld or not; None if the model is not calibrated, or not for this read mode, or if
            the answer is quoted because its passage has the words of the question, whatever the reader makes of it.
        sources: the document the answer was read in, then the others, best first.
        seconds: of the whole batch: to `search` the bank, to read or generate the `answer`, to look up `sources`.
        totals, sizes: of the banks, summed.
        gain: what the bank adds to the answer's log-likelihood per token, in nats; None for a retriever-reader.
        codes: each code's share of the attention, [levels, positions, num_codes], summing to 1 per level; None unless
            asked for. A hierarchical read estimates it, see `paper/read_modes.py`.
        extracted: the words of the passage that `confidence` refers to, if `text` was written from them; else None.
        written_by: the chat LM that wrote `text`, or one of the answers that it joins, by its name; None if it was not
            written. It may cite `sources` by their numbers, from 1.
        unsupported: the sentences of a written `text` that do not stand in the sources they cite.
        asked: in a conversation, the follow-up question as completed; None if it was asked unchanged.
        items: the parts that `text` joins, if the question asks for several things; there may be more than were found. Of
            a tentative answer, it and the runner-up, if that is nearly as likely. Of a figure worked out from rows of a
            table, it and the source of each.
        missing_banks: of a cluster, which did not answer and are left out.
    """

    question: str
    text: str | None
    confidence: Confidence | None
    sources: tuple["Source", ...]
    seconds: Mapping[str, float]
    totals: "BankTotals"
    sizes: "BankSizes"
    gain: float | None = None
    codes: "CodeMap | None" = field(default=None, repr=False, compare=False)
    extracted: str | None = None
    written_by: str | None = None
    unsupported: tuple[str, ...] = ()
    asked: str | None = None
    tentative: bool = False
    items: tuple[AnswerItem, ...] = ()
    missing_banks: tuple[str, ...] = ()
    withheld: bool = False

    @property
    def is_extracted(self) -> bool:
        """Whether a model that reads passages, such as mini, answered, or withheld its answer."""
        return self.gain is None

    def with_question(self, question: str) -> "Answer":
        """This answer for `question`, which was completed to the one it answers."""
        return self if question == self.question else replace(self, question=question, asked=self.question)


State = Literal["unchanged", "changed", "gone", "unreadable", "unknown"]
TextFrom = Literal["file", "bank"]


@dataclass(frozen=True)
class Source:
    """A passage found for a question: a chunk of a document, and where it came from.

    Attributes:
        path: where it was read from; the document's digest in a bank without origins.
        part: which part of that, "" for all of it.
        share: the probability that the search gives the document, or its share of the attention, in [0, 1].
        ties: how many other documents of the bank have the same share.
        state: whether the file is still what was ingested; `unknown` in a bank without origins, or if to check that takes too long.
        sentence: the one the answer was read in; for other sources, the best match for the question; None if none was
            looked for.
        passage: the chunk as it was ingested, without characters that are not seen (`readable`); None if neither the
            file nor the bank still has it.
        text_from: the file while it is unchanged, otherwise the bank; None without text, as is `start`.
        start: the character offset of the chunk in the document's text.
        date: when it was written, ISO 8601, if known.
        bank: the name of the bank that holds it.
        line: the line of the file that the sentence begins on, from 1; None unless its format knows, or the file has
            the passage verbatim and only once.
        page: the page of the file that the sentence begins on, from 1, if it has pages.
        others: the names of other places where the same text was read, as `PATH` or `PATH#PART`.
    """

    path: str
    part: str
    share: float
    ties: int
    state: State
    sentence: str | None
    passage: str | None
    text_from: TextFrom | None
    start: int | None
    date: str | None
    bank: str
    line: int | None = None
    page: int | None = None
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its path, or `PATH#PART`."""
        return f"{self.path}#{self.part}" if self.part else self.path

    def span(self) -> tuple[int, int] | None:
        """Start and end of the sentence in the passage, where it, and its words, may be on several lines."""
        sentence, passage = self.sentence or "", self.passage or ""
        if sentence and (start := passage.find(sentence)) >= 0:  # compiling the expression takes milliseconds
            return start, start + len(sentence)
        words = sentence.split()
        parted = r"(?:[-\u2010]?\n[ \t]*)?" if re.search("[-\u2010]\n", passage) else ""
        match = re.search(r"\s+".join(parted.join(map(re.escape, word)) for word in words), passage) if words else None
        return match and match.span()
