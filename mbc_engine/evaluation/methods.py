"""Methods under evaluation: their interface, the table of all by name, and what the paper reports for them.

`published.toml` has the paper's results. No torch.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from mbc_engine.names import READ_MODES

Protocol = Literal["online", "retention", "scaling", "code-usage"]
ADAPTED_DOCUMENTS: Final = 1665  # that a model is adapted to before it is asked (paper, section 4.2)


@dataclass(frozen=True)
class MethodAnswer:
    """An answer, and its source documents, best first, by index in the stream; None if the method cannot name any."""

    text: str
    sources: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Footprint:
    """What a method stores of the documents, in bytes.

    `paper_row` is what the paper counts per row of the bank, None for methods whose memory it does not count,
    `paper_fixed` what it counts besides the rows. The released code's bank has one row per question, so a document with
    five questions counts five times.
    """

    on_disk: int
    paper_row: int | None = None
    paper_fixed: int = 0


class Method:
    """A system under evaluation. It sees documents and questions, never a gold answer."""

    def reset(self) -> None:
        """Forget all documents."""

    def adapt(self, documents: Sequence[str]) -> None:
        """Memorise the next documents of the stream, in order; how a stream is split into calls does not matter."""

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        """Answer questions from what was memorised so far; the order of the questions does not matter."""
        raise NotImplementedError

    def footprint(self) -> Footprint:
        return Footprint(on_disk=0)


@dataclass(frozen=True)
class MethodKind:
    """A method by name, with its title in tables, and what is trained first (see `cells.Cell`).

    A control has the method of which it is one, and what that method's corrupted bank holds. `adapts` says whether
    answers depend on the documents memorised, `takes_read` whether there is also one for each read mode, such as
    mbc-flat; its `read` is None for the suite's or the model's own.
    """

    name: str
    title: str
    needs: tuple[str, ...] = ()
    control_of: str | None = None
    corrupted_bank: str = ""
    adapts: bool = True
    takes_read: bool = False
    read: str | None = None

    @property
    def is_retriever_reader(self) -> bool:
        return not self.needs

    @property
    def is_fine_tuned(self) -> bool:
        """Whether it fine-tunes the base LM on documents, with a learning rate chosen on validation questions."""
        return self.adapts and "questions" in self.needs

    @property
    def bank_settings(self) -> tuple[str, ...] | None:
        """How the model of the paper's method that reads its bank differs from MBC; None if none does."""
        vectors = ("model.quantised=false",)
        return {"mbc": (), "mbc-null": (), "mac": vectors, "mbc-unquantised": vectors}.get(next(iter(self.needs), ""))

    @property
    def needs_training_data(self) -> bool:
        """Whether it needs questions to train on even around a trained model."""
        return self.is_fine_tuned or not {*self.needs} <= {"mbc", "questions", "reader"}


# What a corrupted bank holds.
_OTHERS: Final = "a bank of other documents"
_MIXED: Final = "codes shuffled over the documents"
_PERMUTED: Final = "codes shuffled over the codebook"
_TEXTS: Final = "texts shuffled over the chunks"
_UNREAD: Final = "the same bank read by a model that never learned to read"
_KINDS: Final = (
    MethodKind("mbc", "MBC", ("mbc",), takes_read=True),
    MethodKind("mbc-text", "KV-LoRA over text", ("text",)),
    MethodKind("mac", "MAC", ("mac",), takes_read=True),
    MethodKind("mbc-unquantised", "MBC without codes", ("mbc-unquantised",)),
    MethodKind("uniform", "Uniform", ("questions",)),
    MethodKind("salient-spans", "Salient Spans", ("questions",)),
    MethodKind("camels", "CaMeLS", ("questions", "camels")),
    MethodKind("tf-idf", "TF-IDF", ("questions",)),
    MethodKind("closed-book", "Closed book", ("questions",), adapts=False),
    MethodKind("bm25", "BM25 + reading", ("reader",)),
    MethodKind("oracle", "Oracle document", ("reader",), adapts=False),
    MethodKind("retriever-reader", "Retriever-reader"),
    MethodKind("mbc-empty", "MBC, empty bank", ("mbc",), "mbc", adapts=False),
    MethodKind("mbc-shuffled-documents", "MBC, codes shuffled over documents", ("mbc",), "mbc", _MIXED),
    MethodKind("mbc-shuffled-codes", "MBC, codes shuffled over the codebook", ("mbc",), "mbc", _PERMUTED),
    MethodKind("mbc-wrong", "MBC, wrong bank", ("mbc",), "mbc", _OTHERS, takes_read=True),
    MethodKind("mbc-null", "MBC, null", ("mbc-null",), "mbc", _UNREAD),
    MethodKind("mbc-text-empty", "KV-LoRA over text, empty bank", ("text",), "mbc-text", adapts=False),
    MethodKind("mbc-text-shuffled", "KV-LoRA over text, texts shuffled over the chunks", ("text",), "mbc-text", _TEXTS),
    MethodKind("mbc-text-wrong", "KV-LoRA over text, wrong bank", ("text",), "mbc-text", _OTHERS),
    MethodKind("mac-wrong", "MAC, wrong bank", ("mac",), "mac", _OTHERS, takes_read=True),
)


def _with_read(kind: MethodKind, read: str) -> MethodKind:
    control_of = kind.control_of and f"{kind.control_of}-{read}"
    title = f"{kind.title} ({read} read)"
    return replace(kind, name=f"{kind.name}-{read}", title=title, control_of=control_of, read=read)


# In the order of tables.
METHODS: Final[Mapping[str, MethodKind]] = {
    kind.name: kind
    for kind in (*_KINDS, *(_with_read(kind, read) for read in READ_MODES for kind in _KINDS if kind.takes_read))
}


def method_kind(name: str) -> MethodKind:
    """A method by its name, of which nothing else is known if this version has no such method."""
    return METHODS.get(name) or MethodKind(name, name)


def controls_of(name: str) -> tuple[str, ...]:
    """What a method must beat for its scores to mean anything: its corrupted banks, else the LM without documents.

    An empty bank is no evidence: training never showed the model a prefix of nothing.
    """
    kind = method_kind(name)
    if kind.control_of or kind.is_retriever_reader or name == "closed-book":
        return ()
    corrupted = (control.name for control in METHODS.values() if control.control_of == name and control.corrupted_bank)
    return (*corrupted,) or ("closed-book",)


@cache
def published() -> dict[str, Any]:
    """The paper's results, keyed as in the file: by kind, base, dataset and method."""
    return tomllib.loads((files("mbc_engine.evaluation") / "published.toml").read_text("utf-8"))


def published_scores(base: str, dataset: str, method: str) -> dict[str, Any] | None:
    """The paper's `exact_match` and `f1` of a method (table 1), in percent, and its `retention` (table 3).

    A step of retention has `documents`, `bank_bytes`, and `retention`, the F1 of the first documents in percent of its
    initial value.
    """
    pair, table = published()["answers"].get(base, {}).get(dataset, {}).get(method), published()["retention"]
    if not pair:
        return None
    steps = zip(table["documents"], table.get(base, {}).get(dataset, {}).get(method, ()), strict=False)
    retention = [
        {"documents": documents, "bank_bytes": round(megabytes * 1024**2), "retention": kept}
        for documents, (megabytes, kept) in steps
    ]
    return {"exact_match": pair[0], "f1": pair[1], "retention": retention}
