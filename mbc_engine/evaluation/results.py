"""The protocols' results, the scoring of answers, and the folder that stores an experiment.

All shares are in percent.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from mbc_engine.atomic_write import atomic_write
from mbc_engine.config import first_fault
from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.statistics import Difference, Interval, adjusted, compare_pairs, interval
from mbc_engine.metrics import Golds, compare
from mbc_engine.runs.training_runs import hold_folder
from mbc_engine.text.decoding import storable

_SOURCES: Final = 5


@dataclass(frozen=True)
class Prediction:
    """A question, its gold `answers`, a method's answer and its scores; F1 is in [0, 1].

    `document` is its document's index in the stream, `rank` that document's rank, from 0, among the method's first five
    sources; `article` is what the document is a part of, if the dataset says so.
    """

    id: str
    document: int
    question: str
    answers: tuple[str, ...]
    answer: str
    exact_match: bool
    f1: float
    lenient_match: bool
    rank: int | None
    article: str = ""

    @property
    def cluster(self) -> str:
        """Questions of one article, or else of one document, are not independent."""
        return self.article or f"document {self.document}"


@dataclass(frozen=True)
class Cost:
    """End-to-end seconds, and bytes of a memory of `documents` documents, as stored and as the paper counts them.

    `shared` are the bytes of what all documents' codes refer to, the codebook in float32; `text` those of the documents
    themselves, as UTF-8.
    """

    documents: int
    seconds_per_document: float
    seconds_per_answer: float
    on_disk: int
    paper_bytes: int | None
    shared: int = 0
    text: int | None = None


@dataclass(frozen=True)
class QuestionScores:
    """Scores on questions, and how often their document is the method's first source, or among its first five."""

    questions: int
    exact_match: Interval
    f1: Interval
    lenient_match: float
    first_source: float | None
    in_five: float | None


@dataclass(frozen=True)
class Measurement:
    """Scores and costs of `banks` memories of `cost.documents` documents each, and every answer, which has a file of
    its own; `retained` is F1 in percent of its value before further documents were added, None if that was not measured
    or 0, and only the ratio in older results."""

    scores: QuestionScores
    cost: Cost
    banks: int = 1
    retained: Interval | float | None = None
    predictions: Annotated[Sequence[Prediction], Field(exclude=True)] = ()


@dataclass(frozen=True)
class MethodResults:
    """A method's results in each protocol that was run, and its learning rate.

    A report adds the method, and the paper's results (see `published_scores`).

    `alone` and `wrong` are the F1 of the closed book and of the method's wrong bank, in the memory of all documents, on
    the questions of retention: what of F1 is not remembered.
    """

    method: str = ""
    title: str = ""
    is_control: bool = False
    online: Measurement | None = None
    retention: tuple[Measurement, ...] = ()
    scaling: tuple[Measurement, ...] = ()
    rate: float | None = None
    alone: Interval | None = None
    wrong: Interval | None = None
    published: dict[str, Any] | None = None


@dataclass(frozen=True)
class CodeUsage:
    """Perplexity of code usage by training step, with and without the online reset (paper, section 4.4.4)."""

    codes: int
    with_reset: tuple[tuple[int, float], ...]
    without_reset: tuple[tuple[int, float], ...]


def predict(example: QAExample, given: MethodAnswer, index: int, *, start: int, golds: Golds) -> Prediction:
    """Score an answer about document `index` of the stream, from a memory of the documents from `start` on."""
    answer, sources = storable(given.text), (given.sources or ())[:_SOURCES]
    match = compare(answer, example.answers, golds)
    scores = match.exact_match, match.f1, match.lenient_match
    rank = sources.index(index - start) if index - start in sources else None
    return Prediction(example.id, index, example.question, example.answers, answer, *scores, rank, example.title)


def score(predictions: Sequence[Prediction], *, names_sources: bool, seed: int) -> QuestionScores:
    """The scores of one or more predictions."""
    clusters = [one.cluster for one in predictions]
    return QuestionScores(
        questions=len(predictions),
        exact_match=interval([100 * one.exact_match for one in predictions], clusters, seed=seed),
        f1=interval([100 * one.f1 for one in predictions], clusters, seed=seed),
        lenient_match=100 * fmean(one.lenient_match for one in predictions),
        first_source=100 * fmean(one.rank == 0 for one in predictions) if names_sources else None,
        in_five=100 * fmean(one.rank is not None for one in predictions) if names_sources else None,
    )


@dataclass(frozen=True)
class PairedTest:
    """Method `first` against `second`, by name, on the questions both were asked."""

    first: str
    second: str
    questions: int
    exact_match: Difference
    f1: Difference


def pair_all(answered: Mapping[str, Sequence[Prediction]], pairs: Iterable[tuple[str, str]]) -> tuple[PairedTest, ...]:
    """Run paired tests of methods by name, skipping pairs that have no question in common.

    P-values are adjusted for the number of pairs, separately for each measure. Tests on the same questions share their
    random draws.
    """
    known = {name: by_question(predictions) for name, predictions in answered.items()}
    alike = defaultdict[tuple[Any, ...], list[tuple[str, str]]](list)
    for pair in pairs:
        ours, theirs = (known.get(name, {}) for name in pair)
        if shared := tuple(key for key in ours if key in theirs):
            alike[shared].append(pair)
    tested: dict[tuple[str, str], PairedTest] = {}
    for shared, group in alike.items():
        figures = [
            [[100.0 * getattr(known[name][key], figure) for key in shared] for name in pair]
            for pair in group
            for figure in ("exact_match", "f1")
        ]
        differences = iter(compare_pairs(figures, [known[group[0][0]][key].cluster for key in shared]))
        tested |= {pair: PairedTest(*pair, len(shared), next(differences), next(differences)) for pair in group}
    tests = [tested[pair] for pair in pairs if pair in tested]
    corrected = (adjusted(one.exact_match.p for one in tests), adjusted(one.f1.p for one in tests))
    return tuple(
        replace(one, exact_match=replace(one.exact_match, adjusted=em), f1=replace(one.f1, adjusted=f1))
        for one, em, f1 in zip(tests, *corrected, strict=True)
    )


def by_question(predictions: Sequence[Prediction]) -> dict[tuple[str, str, int], Prediction]:
    """Predictions by the question's id and text, and how often both occurred before."""
    before, known = Counter[tuple[str, str]](), {}
    for one in predictions:
        known[one.id, one.question, before[one.id, one.question]] = one
        before[one.id, one.question] += 1
    return known


# The content of each kind of result file; of others, online and a size of scaling, a measurement.
_KINDS: Final = {"rate": float, "retention": tuple[Measurement, ...], "code-usage": CodeUsage}


class CellFolder:
    """The results of a base LM on a dataset, each in a file that is written atomically, and what was trained."""

    def __init__(self, path: Path) -> None:
        self.path, self.prepared, self.results_folder = path, path / "prepared", path / "results"

    def file(self, method: str, kind: str) -> Path:
        return self.results_folder / method / f"{kind}.json"

    def write(self, method: str, kind: str, value: Any) -> None:
        _write(self.file(method, kind), value, _KINDS.get(kind, Measurement))

    def read(self, method: str, kind: str) -> Any:
        return _read(self.file(method, kind), _KINDS.get(kind, Measurement))

    def write_measured(self, method: str, kind: str, measured: Sequence[Measurement]) -> None:
        """Write the answers and then the measurements of a protocol: several only of `retention`."""
        for one in measured:
            path = self._predictions(method, kind, one)
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.writelines(_adapter(Prediction).dump_json(answer) + b"\n" for answer in one.predictions)
        self.write(method, kind, tuple(measured) if kind == "retention" else measured[0])

    def measured(self, method: str, kind: str) -> Iterator[Measurement]:
        """A protocol's results; of retention and scaling, older ones came without the answers."""
        found = self.read(method, kind) or ()
        for one in found if isinstance(found, tuple) else [found]:
            path, predictions = self._predictions(method, kind, one), list[Prediction]()
            with _way_out(path, delete=self.file(method, kind)):
                if kind == "online" or path.exists():
                    lines, answer = path.read_bytes().splitlines(), _adapter(Prediction)
                    predictions = [answer.validate_json(line, strict=True) for line in lines]
                    if len(predictions) != one.scores.questions:
                        raise OSError(f"it has {len(predictions):,} of {one.scores.questions:,} answers")
            yield replace(one, predictions=predictions)

    def results(self, method: str) -> MethodResults:
        names = (path.stem.removeprefix("scaling-") for path in self.file(method, "").parent.glob("scaling-*.json"))
        sizes = sorted(int(name) for name in names if name.isdecimal())
        online = next(self.measured(method, "online"), None)
        scaling = [one for size in sizes for one in self.measured(method, f"scaling-{size}")]
        scaling += [online] if scaling and online and online.cost.documents not in sizes else []
        kept, rate = tuple(self.measured(method, "retention")), self.read(method, "rate")
        return MethodResults(online=online, retention=kept, scaling=tuple(scaling), rate=rate)

    def methods(self) -> list[str]:
        return sorted({path.parent.name for path in self.results_folder.glob("*/*.json")})

    def require_same(self, what: str, digest: str) -> None:
        """Record the digest of the cell's questions or preset, or raise DataError if it differs from the recorded one."""
        path = self.path / f"{what}.json"
        if not path.exists():
            _write(path, digest, str)
        elif _read(path, str) != digest:
            fault = f"The {what} of {self.path.name} have changed since the evaluation began."
            raise DataError(fault, hint="Restore their files, or use another folder.")

    def _predictions(self, method: str, kind: str, one: Measurement) -> Path:
        step = f"{kind}-{one.cost.documents}" if kind == "retention" else kind
        return self.file(method, f"{step}.predictions").with_suffix(".jsonl")


class ExperimentFolder:
    """An experiment's folder, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path, self.events = path, path / "events.jsonl"
        self.report_markdown, self.report_json = path / "report.md", path / "report.json"
        self._settings, self._environments = path / "experiment.toml", path / "environment.json"

    def exists(self) -> bool:
        return self._settings.is_file()

    def lock(self) -> AbstractContextManager[None]:
        return hold_folder(self.path, "evaluation", resuming="run again to continue from the last finished stage")

    def begin(self, settings: Mapping[str, Any], environment: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Record the settings and the environment. Raises ConfigError if work here began with others, `before`."""
        import tomlkit

        text = tomlkit.dumps(settings)
        if text != storable(text):
            raise ConfigError("The name of a file is not UTF-8.", hint="Rename the file.")
        if any(self.path.glob("*/")):  # else none began, or failed before its first stage
            old, new = _without_sources(before), _without_sources(settings)
            if others := sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)):
                fault = f"{self.path} holds an evaluation with other settings: {', '.join(others)}."
                raise ConfigError(fault, hint="Use another folder, or the settings that it was begun with.")
        with atomic_write(self._settings) as file:
            file.write(text.encode())
        known, same = self.environments(), {"date": None, "command": None}
        if {**environment, **same} not in [{**other, **same} for other in known]:
            _write(self._environments, [*known, environment], list[dict[str, Any]])

    def settings(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self._settings.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            hint = "Name the folder of one that `mbc eval` made."
            raise DataError(f"There is no evaluation in {self.path}.", hint=hint) from error
        except (OSError, ValueError) as error:
            hint = "Repair it, or use another folder."
            raise DataError(f"{self._settings} cannot be read: {error}.", hint=hint) from error

    def environments(self) -> list[dict[str, Any]]:
        return _read(self._environments, list[dict[str, Any]]) or []

    def cell(self, name: str) -> CellFolder:
        return CellFolder(self.path / name)


def _without_sources(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the datasets' files, which may move: each cell keeps a digest of its questions."""
    sources = {"train", "questions_train", "validation", "test"}
    datasets = [{key: dataset[key] for key in dataset.keys() - sources} for dataset in settings.get("datasets", [])]
    return {**settings, "datasets": datasets}


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def _write(path: Path, value: Any, kind: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(_adapter(kind).dump_json(value, indent=2) + b"\n")


def _read(path: Path, kind: Any) -> Any:
    """The content of a file, None if there is none. Raises DataError if it is damaged."""
    with _way_out(path, delete=path):
        return _adapter(kind).validate_json(path.read_bytes(), strict=True) if path.exists() else None


@contextmanager
def _way_out(path: Path, *, delete: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValidationError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else error.strerror or str(error)
        hint = f"Delete {delete} and run the evaluation again."
        raise DataError(f"{path} cannot be read: {fault}.", hint=hint) from error
