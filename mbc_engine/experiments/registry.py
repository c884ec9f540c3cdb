"""The methods that can be evaluated (`methods.toml`), each created by `Cell.method`.

Also the results the paper reports for them, for comparison (`published.toml`).
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from mbc_engine.names import READ_MODES

Protocol = Literal["online", "retention", "scaling", "code-usage"]
# Section 4.2: documents that a model is adapted to before it is asked.
ADAPTED_DOCUMENTS = 1665
_FOLDER = files("mbc_engine.experiments")


@dataclass(frozen=True)
class MethodKind:
    """A method by name, with its title in tables.

    Attributes:
        needs: what has to be prepared; see `Cell.config_of` and `running.py`.
        control_of: the method whose bank it removes or corrupts, if it is a control.
        corrupted_bank: the bank that method is then asked with, worded to follow "with".
        is_fine_tuned: whether it fine-tunes the base LM, with a learning rate chosen on validation questions.
        adapts: whether its answers depend on the documents memorised, so that retention and scaling make sense.
        needs_training_data: whether it needs questions to train on even around a trained model.
        is_retriever_reader: whether it is one, such as mini; all others are built around a base LM.
        is_ranked: whether it can lead a table; a control, or a method given the right document, cannot.
        read: its read mode; None for the experiment's, or the model's own.
    """

    name: str
    title: str
    description: str
    needs: tuple[str, ...] = ()
    control_of: str | None = None
    corrupted_bank: str = ""
    is_fine_tuned: bool = False
    adapts: bool = True
    needs_training_data: bool = False
    is_retriever_reader: bool = False
    is_ranked: bool = True
    read: str | None = None

    def with_read(self, read: str) -> "MethodKind":
        """The same with a fixed read mode, which is added to its name and to that of the method it is a control of."""
        return replace(
            self,
            name=f"{self.name}-{read}",
            title=f"{self.title} ({read} read)",
            description=f"{self.description}; {read} read",
            control_of=self.control_of and f"{self.control_of}-{read}",
            read=read,
        )


_KINDS = [
    MethodKind(name, **{**method, "needs": tuple(method.get("needs", ()))})
    for name, method in tomllib.loads(_FOLDER.joinpath("methods.toml").read_text("utf-8")).items()
]
_READ_IN_MANY_WAYS = ("mbc", "mbc-wrong", "mac", "mac-wrong")
_BY_READ = [kind.with_read(read) for read in READ_MODES for kind in _KINDS if kind.name in _READ_IN_MANY_WAYS]
METHODS: Mapping[str, MethodKind] = {kind.name: kind for kind in (*_KINDS, *_BY_READ)}


def title_of(method: str) -> str:
    """The title shown in tables; the name itself if this version has no such method."""
    return METHODS[method].title if method in METHODS else method


def controls_of(method: str) -> tuple[str, ...]:
    """What a method must beat for its scores to mean anything: its corrupted banks, else the LM without documents."""
    kind = METHODS.get(method)
    if kind is None or kind.control_of is not None or kind.is_retriever_reader or method == "closed-book":
        return ()
    controls = tuple(kind.name for kind in METHODS.values() if kind.control_of == method)
    return controls or ("closed-book",)


@cache
def published() -> dict[str, Any]:
    """The paper's results, keyed as in the file: by kind, base, dataset and method."""
    return tomllib.loads(_FOLDER.joinpath("published.toml").read_text("utf-8"))


def published_scores(base: str, dataset: str, method: str) -> dict[str, Any] | None:
    """The paper's `exact_match` and `f1` of a method (table 1), in percent, and its `retention` (table 3).

    A step of retention has `documents`, `bank_bytes`, and `retention`, the F1 of the first documents in percent of its
    initial value.
    """
    answers, table = published()["answers"], published()["retention"]
    pair = answers.get(base, {}).get(dataset, {}).get(method)
    if not pair:
        return None
    steps = table.get(base, {}).get(dataset, {}).get(method, ())
    retention = [
        {"documents": documents, "bank_bytes": round(megabytes * 1024**2), "retention": kept}
        for documents, (megabytes, kept) in zip(table["documents"], steps, strict=False)
    ]
    return {"exact_match": pair[0], "f1": pair[1], "retention": retention}


def published_usage(base: str, dataset: str) -> dict[str, Any] | None:
    """The paper's perplexity of code usage: a range or a lower bound, and what it falls to without reset."""
    found = published()["perplexity"].get(base) if dataset == "streamingqa" else None
    return found and {"with_reset": found["with-reset"], "without_reset": found["without-reset"][0]}
