"""The methods that can be evaluated (`methods.toml`), each made by `Cell.method`.

Also what the paper reports of them, to stand beside what is measured here (`published.toml`).
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
        control_of: the method whose bank it takes away or spoils, if it is a control.
        spoilt_bank: what that method is then asked with, as it follows "with".
        is_fine_tuned: whether it fine-tunes the base LM, with a learning rate chosen on validation questions.
        adapts: whether its answers depend on the documents taken in, so that retention and scaling make sense.
        needs_training_data: whether it needs questions to train on even around a trained model.
        is_retriever_reader: whether it is one, such as mini; all others are built around a base LM.
        is_ranked: whether it can lead a table, which neither controls nor those that know the right document do.
        read: how its memory is read; None is the experiment's way, or the model's own.
    """

    name: str
    title: str
    description: str
    needs: tuple[str, ...] = ()
    control_of: str | None = None
    spoilt_bank: str = ""
    is_fine_tuned: bool = False
    adapts: bool = True
    needs_training_data: bool = False
    is_retriever_reader: bool = False
    is_ranked: bool = True
    read: str | None = None

    def by(self, read: str) -> "MethodKind":
        """The same with a read of its own, in its name too; so is the method that it is a control of."""
        return replace(
            self,
            name=f"{self.name}-{read}",
            title=f"{self.title}, {read} read",
            description=f"{self.description}; {read} read",
            control_of=self.control_of and f"{self.control_of}-{read}",
            read=read,
        )


_KINDS = [
    MethodKind(name, **{**method, "needs": tuple(method.get("needs", ()))})
    for name, method in tomllib.loads(_FOLDER.joinpath("methods.toml").read_text("utf-8")).items()
]
_READ_IN_MANY_WAYS = ("mbc", "mbc-wrong", "mac", "mac-wrong")
_BY_READ = [kind.by(read) for read in READ_MODES for kind in _KINDS if kind.name in _READ_IN_MANY_WAYS]
METHODS: Mapping[str, MethodKind] = {kind.name: kind for kind in (*_KINDS, *_BY_READ)}


def title_of(method: str) -> str:
    """As tables show it; its name if it is another version's."""
    return METHODS[method].title if method in METHODS else method


def controls_of(method: str) -> tuple[str, ...]:
    """What a method has to beat before its figures mean anything: its spoilt banks, and the LM without documents."""
    kind = METHODS.get(method)
    if kind is None or kind.control_of is not None or kind.is_retriever_reader or method == "closed-book":
        return ()
    spoilt = tuple(kind.name for kind in METHODS.values() if kind.control_of == method)
    return spoilt or ("closed-book",)


@cache
def published() -> dict[str, Any]:
    """The paper's figures, as the file has them: by kind, base, dataset and method."""
    return tomllib.loads(_FOLDER.joinpath("published.toml").read_text("utf-8"))


def published_scores(base: str, dataset: str, method: str) -> dict[str, Any] | None:
    """The paper's `exact_match` and `f1` of a method (table 1), in percent, and its `retention` (table 3).

    A step of retention has `documents`, `bank_bytes` then, and F1 of the first documents in percent of what it was.
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
    """The paper's perplexity of code usage: a range, or from where on; and where it falls to without reset."""
    found = published()["perplexity"].get(base) if dataset == "streamingqa" else None
    return found and {"with_reset": found["with-reset"], "without_reset": found["without-reset"][0]}
