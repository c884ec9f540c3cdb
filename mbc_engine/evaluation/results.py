"""The protocols' results, the scoring of answers, and the folder that stores an experiment.

All shares are in percent.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from mbc_engine.atomic_write import atomic_write
from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.statistics import Difference, Interval, adjusted, compare_pairs, interval
from mbc_engine.events import RateTried
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

    def published_after(self, documents: int) -> dict[str, Any] | None:
        """The paper's retention after so many documents; None unless it asks about as many first documents as ours."""
        steps = self.published["retention"] if self.published else []
        if not self.retention or not steps or self.retention[0].cost.documents != steps[0]["documents"]:
            return None
        return next((step for step in steps if step["documents"] == documents), None)


@dataclass(frozen=True)
class CodeUsage:
    """Perplexity of code usage by training step, with and without the online reset (paper, section 4.4.4)."""

    codes: int
    with_reset: tuple[tuple[int, float], ...]
    without_reset: tuple[tuple[int, float], ...]


def predict(
    example: QAExample, given: MethodAnswer, *, stream_index: int, memory_index: int, golds: Golds
) -> Prediction:
    """Score an answer; its document has index `stream_index` in the stream, `memory_index` among those memorised."""
    answer, sources = storable(given.text), (given.sources or ())[:_SOURCES]
    match = compare(answer, example.answers, golds)
    scores = match.exact_match, match.f1, match.lenient_match
    rank = sources.index(memory_index) if memory_index in sources else None
    return Prediction(example.id, stream_index, example.question, example.answers, answer, *scores, rank, example.title)


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
    shared, alike = dict[tuple[str, str], list[tuple[Prediction, Prediction]]](), defaultdict[Any, list[Any]](list)
    for pair in pairs:
        ours, theirs = (known.get(name, {}) for name in pair)
        if both := [(one, theirs[key]) for key, one in ours.items() if key in theirs]:
            shared[pair] = both
            alike[tuple(one.cluster for one, _ in both)].append(pair)
    figures: dict[str, list[Difference]] = {}
    for figure in ("exact_match", "f1"):
        tested: dict[tuple[str, str], Difference] = {}
        for clusters, group in alike.items():
            values = [
                (
                    [100.0 * getattr(one, figure) for one, _ in shared[pair]],
                    [100.0 * getattr(other, figure) for _, other in shared[pair]],
                )
                for pair in group
            ]
            tested |= zip(group, compare_pairs(values, clusters), strict=True)
        tests = [tested[pair] for pair in shared]
        corrected = adjusted(test.p for test in tests)
        figures[figure] = [replace(test, adjusted=p) for test, p in zip(tests, corrected, strict=True)]
    rows = zip(shared.items(), figures["exact_match"], figures["f1"], strict=True)
    return tuple(PairedTest(*pair, len(both), em, f1) for (pair, both), em, f1 in rows)


def by_question(predictions: Sequence[Prediction]) -> dict[tuple[str, str, int], Prediction]:
    """Predictions by the question's id and text, and how often both occurred before."""
    before: Counter[tuple[str, str]] = Counter()
    known = {}
    for one in predictions:
        known[one.id, one.question, before[one.id, one.question]] = one
        before[one.id, one.question] += 1
    return known


_PREPARED: Final = "prepared"
_RESULTS: Final = "results"
_LINE: Final = TypeAdapter(Prediction)
# The content of each kind of result file; there is one of scaling for each size.
_KINDS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "rate": TypeAdapter(float),
    "rates": TypeAdapter(tuple[RateTried, ...]),
    "online": TypeAdapter(Measurement),
    "scaling": TypeAdapter(Measurement),
    "retention": TypeAdapter(tuple[Measurement, ...]),
    "code-usage": TypeAdapter(CodeUsage),
}
_DIGEST: Final = TypeAdapter(str)
_ENVIRONMENTS: Final = TypeAdapter(list[dict[str, Any]])


class CellFolder:
    """The results of a base LM on a dataset, each in a file that is written atomically."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.prepared_folder = path / _PREPARED

    def file(self, method: str, kind: str) -> Path:
        folder = self.path / _RESULTS
        return (folder / _checked(method) if method else folder) / f"{kind}.json"

    def has(self, method: str, kind: str) -> bool:
        return self.file(method, kind).is_file()

    def write(self, method: str, kind: str, value: Any) -> None:
        _write(self.file(method, kind), value, _adapter(kind))

    def read(self, method: str, kind: str) -> Any:
        return _read(self.file(method, kind), _adapter(kind))

    def write_measured(self, method: str, kind: str, measured: Sequence[Measurement]) -> None:
        """Write the answers and then the measurements of a protocol: several only of `retention`."""
        for one in measured:
            path = self._predictions(method, kind, one)
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.writelines(_LINE.dump_json(prediction) + b"\n" for prediction in one.predictions)
        self.write(method, kind, tuple(measured) if kind == "retention" else measured[0])

    def measured(self, method: str, kind: str) -> tuple[Measurement, ...]:
        """A protocol's results; of retention and scaling, older ones came without the answers."""
        found, whole = self.read(method, kind) or (), []
        for one in [found] if isinstance(found, Measurement) else found:
            path, predictions = self._predictions(method, kind, one), list[Prediction]()
            with _way_out(path, delete=self.file(method, kind)):
                if kind == "online" or path.exists():
                    predictions = [_LINE.validate_json(line, strict=True) for line in path.read_bytes().splitlines()]
                    if len(predictions) != one.scores.questions:
                        raise OSError(f"it has {len(predictions):,} of {one.scores.questions:,} answers")
            whole.append(replace(one, predictions=predictions))
        return tuple(whole)

    def results(self, method: str) -> MethodResults:
        names = (path.stem.removeprefix("scaling-") for path in self.file(method, "").parent.glob("scaling-*.json"))
        sizes = sorted(int(name) for name in names if name.isdecimal())
        online = self.measured(method, "online")
        scaling = [one for size in sizes for one in self.measured(method, f"scaling-{size}")]
        scaling += [one for one in online if scaling and one.cost.documents not in sizes]
        kept, rate = self.measured(method, "retention"), self.read(method, "rate")
        return MethodResults(online=next(iter(online), None), retention=kept, scaling=tuple(scaling), rate=rate)

    def is_begun(self) -> bool:
        return (self.path / _RESULTS).is_dir()

    def methods(self) -> list[str]:
        names = sorted(path.name for path in _folders(self.path / _RESULTS))
        return [name for name in names if any(self.file(name, "").parent.glob("*.json"))]

    def require_same_questions(self, digest: str) -> None:
        """Record the digest of the cell's questions, or raise DataError if it differs from the recorded one."""
        path = self.path / "questions.json"
        before = _read(path, _DIGEST)
        if before is None:
            _write(path, digest, _DIGEST)
        elif before != digest:
            raise DataError(
                f"The questions of {self.name} have changed since the evaluation began.",
                hint="Restore their files, or use another folder.",
            )

    def is_prepared(self, name: str) -> bool:
        return (self.prepared_folder / name / _PREPARED).is_file()

    def set_prepared(self, name: str) -> None:
        (self.prepared_folder / name / _PREPARED).touch()

    def _predictions(self, method: str, kind: str, one: Measurement) -> Path:
        step = f"{kind}-{one.cost.documents}" if kind == "retention" else kind
        return self.file(method, f"{step}.predictions").with_suffix(".jsonl")


class ExperimentFolder:
    """An experiment's folder, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / "events.jsonl"
        self.report_markdown, self.report_json = path / "report.md", path / "report.json"
        self._settings, self._environments = path / "experiment.toml", path / "environment.json"

    def exists(self) -> bool:
        return self._settings.is_file()

    def lock(self) -> AbstractContextManager[None]:
        again = "run again to continue from the last finished stage"
        return hold_folder(self.path, "evaluation", resuming=again)

    def begin(self, settings: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Record the settings and the environment. Raises ConfigError if work here began with other settings."""
        import tomlkit

        text = tomlkit.dumps(settings)
        if text != storable(text):
            raise ConfigError("The name of a file is not UTF-8.", hint="Rename the file.")
        before, now = self.settings() if self.exists() else {}, tomllib.loads(text)
        if before and _folders(self.path):  # else it failed before its first stage
            old, new = _without_sources(before), _without_sources(now)
            if others := sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)):
                fault = f"{self.path} holds an evaluation with other settings: {', '.join(others)}."
                raise ConfigError(fault, hint="Use another folder, or the settings that it was begun with.")
        with atomic_write(self._settings) as file:
            file.write(text.encode())
        known, ignored = self.environments(), {"date": None, "command": None}
        if not any({**environment, **ignored} == {**other, **ignored} for other in known):
            _write(self._environments, [*known, environment], _ENVIRONMENTS)

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
        return _read(self._environments, _ENVIRONMENTS) or []

    def cell(self, name: str) -> CellFolder:
        return CellFolder(self.path / _checked(name))


def _without_sources(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the datasets' files, which may move: each cell keeps a digest of its questions."""
    sources = {"train", "questions_train", "validation", "test"}
    datasets = [{key: own[key] for key in own.keys() - sources} for own in settings.get("datasets", [])]
    return {**settings, "datasets": datasets}


def _adapter(kind: str) -> TypeAdapter[Any]:
    return _KINDS["scaling" if kind.startswith("scaling-") else kind]


def _write(path: Path, value: Any, kind: TypeAdapter[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(kind.dump_json(value, indent=2) + b"\n")


def _read(path: Path, kind: TypeAdapter[Any]) -> Any:
    """The content of a file, None if there is none. Raises DataError if it is damaged."""
    with _way_out(path, delete=path):
        return kind.validate_json(path.read_bytes(), strict=True) if path.exists() else None


@contextmanager
def _way_out(path: Path, *, delete: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValidationError) as error:
        fault = getattr(error, "strerror", None) or str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            fault = "".join(f"{part}: " for part in first["loc"]) + first["msg"]
        raise DataError(
            f"{path} cannot be read: {fault}.", hint=f"Delete {delete} and run the evaluation again."
        ) from error


def _folders(path: Path) -> list[Path]:
    return [inner for inner in path.iterdir() if inner.is_dir()] if path.is_dir() else []


def _checked(name: str) -> str:
    if name in ("", ".", "..") or any(letter in name for letter in "/\\\0"):
        raise ConfigError(f"{name!r} cannot be the name of a folder.", hint="Use letters, digits and hyphens.")
    return name
