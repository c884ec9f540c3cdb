"""What the protocols find out, how answers are scored, and the folder in which an experiment keeps it all.

All shares are in percent.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from filelock import Timeout
from pydantic import TypeAdapter, ValidationError

from mbc_engine.atomic_write import atomic_write
from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.statistics import Difference, Interval, compare_pairs, interval
from mbc_engine.methods.method import MethodAnswer
from mbc_engine.metrics import Golds, compare
from mbc_engine.runs.event_log import work_lock
from mbc_engine.runs.training_runs import LOCK
from mbc_engine.text.decoding import storable

_SOURCES: Final = 5


@dataclass(frozen=True)
class Prediction:
    """A question and its gold `answers`, what a method answered, and its scores; F1 is in [0, 1].

    `document` is its document's place in the stream, `rank` that among the method's sources: 0 is first, None beyond
    the first five and where the method names none.
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


@dataclass(frozen=True)
class Cost:
    """Seconds, everything included, and the bytes of a memory with `documents` documents in it, as they are stored and
    as the paper counts them, None where it does not."""

    documents: int
    seconds_per_document: float
    seconds_per_answer: float
    on_disk: int
    paper_bytes: int | None


@dataclass(frozen=True)
class QuestionScores:
    """Scores of questions; `first_source` and `in_five` are how often the question's own document ranked first, or among
    the first five; None where the method names no sources."""

    questions: int
    exact_match: Interval
    f1: Interval
    lenient_match: float
    first_source: float | None
    in_five: float | None


@dataclass(frozen=True)
class Measurement:
    """Scores and costs of `banks` memories of `cost.documents` documents each; `retained` is F1 in percent of what it was
    before further documents came, None where that was 0, and where nobody asked before."""

    scores: QuestionScores
    cost: Cost
    banks: int = 1
    retained: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The scores and costs of online adaptation, and every answer."""

    online: Measurement
    predictions: Sequence[Prediction]


@dataclass(frozen=True)
class MethodResults:
    """What a method did in each protocol, None and empty for those that it did not go through; every answer of online
    adaptation (paper, section 4.2); and the learning rate that did best on validation questions, for fine-tuning.
    """

    online: Measurement | None = None
    predictions: Sequence[Prediction] = ()
    retention: tuple[Measurement, ...] = ()
    scaling: tuple[Measurement, ...] = ()
    rate: float | None = None


@dataclass(frozen=True)
class CodeUsage:
    """Perplexity of code usage after steps of training, with and without the online reset (paper, section 4.4.4)."""

    codes: int
    with_reset: tuple[tuple[int, float], ...]
    without_reset: tuple[tuple[int, float], ...]


def predict(example: QAExample, given: MethodAnswer, *, document: int, place: int, golds: Golds) -> Prediction:
    """An answer, compared with the gold answers; `document` and `place` are those of the example's document in the
    stream, and among the documents taken in."""
    answer, sources = storable(given.text), (given.sources or ())[:_SOURCES]
    compared = compare(answer, example.answers, golds)
    scores = compared.exact_match, compared.f1, compared.lenient_match
    rank = sources.index(place) if place in sources else None
    return Prediction(example.id, document, example.question, example.answers, answer, *scores, rank)


def score(predictions: Sequence[Prediction], *, names_sources: bool, seed: int) -> QuestionScores:
    """The scores of one or more predictions."""
    documents = [prediction.document for prediction in predictions]

    def mean(values: Sequence[float]) -> Interval:
        return interval([100 * value for value in values], documents, seed=seed)

    return QuestionScores(
        questions=len(predictions),
        exact_match=mean([prediction.exact_match for prediction in predictions]),
        f1=mean([prediction.f1 for prediction in predictions]),
        lenient_match=100 * fmean(prediction.lenient_match for prediction in predictions),
        first_source=100 * fmean(prediction.rank == 0 for prediction in predictions) if names_sources else None,
        in_five=100 * fmean(prediction.rank is not None for prediction in predictions) if names_sources else None,
    )


@dataclass(frozen=True)
class PairedTest:
    """The first against the second, by their names, on the `questions` questions that both were asked."""

    first: str
    second: str
    questions: int
    exact_match: Difference
    f1: Difference


def pair_all(
    tests: Sequence[tuple[tuple[str, Sequence[Prediction]], tuple[str, Sequence[Prediction]]]],
) -> list[PairedTest | None]:
    """Several tests, each of a first and a second by name; those on the same questions share what is drawn."""
    paired: list[PairedTest | None] = [None] * len(tests)
    groups: dict[tuple[int, ...], dict[int, list[tuple[Prediction, Prediction]]]] = {}
    known = {id(asked): by_question(asked) for test in tests for _, asked in test}
    for number, ((_, first), (_, second)) in enumerate(tests):
        others = known[id(second)]
        shared = [(one, others[key]) for key, one in known[id(first)].items() if key in others]
        if shared:
            groups.setdefault(tuple(one.document for one, _ in shared), {})[number] = shared
    for documents, members in groups.items():
        values = [
            tuple([100.0 * getattr(one, figure) for one in side] for side in zip(*shared, strict=True))
            for figure in ("exact_match", "f1")
            for shared in members.values()
        ]
        found = compare_pairs([(first, second) for first, second in values], documents)
        for place, number in enumerate(members):
            (first_name, _), (second_name, _) = tests[number]
            figures = found[place], found[len(members) + place]
            paired[number] = PairedTest(first_name, second_name, len(documents), *figures)
    return paired


def by_question(predictions: Sequence[Prediction]) -> dict[tuple[str, str, int], Prediction]:
    """Predictions by what a question is known by: its id, its words, and how often both were there before."""
    before: Counter[tuple[str, str]] = Counter()
    known = {}
    for prediction in predictions:
        name = prediction.id, prediction.question
        known[*name, before[name]] = prediction
        before[name] += 1
    return known


_PREPARED: Final = "prepared"
_RESULTS: Final = "results"
_LINE: Final = TypeAdapter(Prediction)
# What a result's file holds.
_KINDS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "rate": TypeAdapter(float),
    "online": TypeAdapter(Measurement),
    "retention": TypeAdapter(tuple[Measurement, ...]),
    "scaling": TypeAdapter(tuple[Measurement, ...]),
    "code-usage": TypeAdapter(CodeUsage),
}
_DIGEST: Final = TypeAdapter(str)
_ENVIRONMENTS: Final = TypeAdapter(list[dict[str, Any]])


class CellFolder:
    """The results of a base LM on a dataset, each a file that is there whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.prepared_folder = path / _PREPARED

    def file(self, method: str, kind: str) -> Path:
        """Where a result lies: a protocol's or the rate of a method, or `code-usage`, of no method."""
        folder = self.path / _RESULTS
        return (folder / _checked(method) if method else folder) / f"{kind}.json"

    def has(self, method: str, kind: str) -> bool:
        return self.file(method, kind).is_file()

    def write(self, method: str, kind: str, value: Any) -> None:
        _write(self.file(method, kind), value, _KINDS[kind])

    def read(self, method: str, kind: str) -> Any:
        return _read(self.file(method, kind), _KINDS[kind])

    def keep_online(self, method: str, outcome: Outcome) -> None:
        path = self._predictions_of(method)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.writelines(_LINE.dump_json(prediction) + b"\n" for prediction in outcome.predictions)
        self.write(method, "online", outcome.online)

    def results(self, method: str) -> MethodResults:
        online = self.read(method, "online")
        return MethodResults(
            online,
            self._predictions(method, online) if online else (),
            self.read(method, "retention") or (),
            self.read(method, "scaling") or (),
            self.read(method, "rate"),
        )

    def methods(self) -> list[str]:
        named = sorted(path.name for path in _folders(self.path / _RESULTS))
        return [name for name in named if any(self.has(name, kind) for kind in _KINDS)]

    def require_same_questions(self, digest: str) -> None:
        """Note by which questions everything in the cell is made, or make sure that they are still the same."""
        path = self.path / "questions.json"
        before = _read(path, _DIGEST)
        if before is None:
            _write(path, digest, _DIGEST)
        elif before != digest:
            raise DataError(
                f"The questions of {self.name} are others than when it was begun: a file has changed.",
                hint="Put it back, or evaluate into another folder.",
            )

    def is_prepared(self, name: str) -> bool:
        return (self.prepared_folder / name / _PREPARED).is_file()

    def keep_prepared(self, name: str) -> None:
        (self.prepared_folder / name / _PREPARED).touch()

    def _predictions_of(self, method: str) -> Path:
        return self.file(method, "online").with_name("online.predictions.jsonl")

    def _predictions(self, method: str, online: Measurement) -> list[Prediction]:
        path, predictions = self._predictions_of(method), list[Prediction]()
        hint = _again(self.file(method, "online"))
        try:
            for line in path.read_bytes().splitlines():
                predictions.append(_LINE.validate_json(line, strict=True))
        except ValidationError as error:
            wrong = f"{path}, line {len(predictions) + 1:,} is not a prediction: {_fault(error)}."
            raise DataError(wrong, hint=hint) from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}.", hint=hint) from error
        if len(predictions) != online.scores.questions:
            raise DataError(f"{path} has {len(predictions):,} of {online.scores.questions:,} answers.", hint=hint)
        return predictions


class ExperimentFolder:
    """An experiment's folder, whether it is there yet or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / "events.jsonl"
        self.report_html, self.report_markdown, self.report_json = (
            path / f"report.{suffix}" for suffix in ("html", "md", "json")
        )
        self._settings, self._environments = path / "experiment.toml", path / "environment.json"

    @property
    def is_there(self) -> bool:
        return self._settings.is_file()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with work_lock(self.path / LOCK):
                yield
        except Timeout as error:
            raise ConfigError(
                f"Another evaluation is at work in {self.path}.", hint="Wait for it, or use another folder."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"The evaluation in {self.path} cannot read or write its files: {error}.",
                hint="Check the path and free disk space; run again to continue from the last finished stage.",
            ) from error

    def begin(self, settings: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Note what is done here and by what, or make sure that what was begun is the same.

        The environment is added to those of before if more than date and command differ.
        """
        import tomlkit

        given = tomlkit.dumps(settings)
        if given != storable(given):
            raise ConfigError(
                "The settings hold what no text file can: the name of a file that is not UTF-8, perhaps.",
                hint="Give the file another name.",
            )
        if self.is_there:
            before, now = self.settings(), tomllib.loads(given)
            others = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            if others and _folders(self.path):
                raise ConfigError(
                    f"{self.path} holds an experiment with other settings: {', '.join(others)}.",
                    hint="Use another folder, or the settings it was begun with.",
                )
            if others:  # it failed before its first stage: there is nothing that could be mixed up
                for path in (self.events, self._environments, self._settings):
                    path.unlink(missing_ok=True)
        if not self.is_there:
            with atomic_write(self._settings) as file:
                file.write(given.encode())
        known, passing = self.environments(), {"date": None, "command": None}
        if not any({**environment, **passing} == {**other, **passing} for other in known):
            _write(self._environments, [*known, environment], _ENVIRONMENTS)

    def settings(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self._settings.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DataError(
                f"There is no experiment in {self.path}.", hint="`mbc eval` makes one; name its folder."
            ) from error
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self._settings} cannot be read: {error}.", hint="Repair it, or evaluate into another folder."
            ) from error

    def environments(self) -> list[dict[str, Any]]:
        return _read(self._environments, _ENVIRONMENTS) or []

    def cell(self, name: str) -> CellFolder:
        return CellFolder(self.path / _checked(name))

    def cells(self) -> list[str]:
        return sorted(path.name for path in _folders(self.path) if (path / _RESULTS).is_dir())


def _write(path: Path, value: Any, kind: TypeAdapter[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(kind.dump_json(value, indent=2) + b"\n")


def _read(path: Path, kind: TypeAdapter[Any]) -> Any:
    try:
        return kind.validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.", hint="Check its permissions.") from error
    except ValidationError as error:
        raise DataError(f"{path} is damaged: {_fault(error)}.", hint=_again(path)) from error


def _fault(error: ValidationError) -> str:
    wrong = error.errors(include_url=False, include_input=False)[0]
    return "".join(f"{part}: " for part in wrong["loc"]) + wrong["msg"]


def _again(path: Path) -> str:
    return f"Delete {path} and run the evaluation again."


def _folders(path: Path) -> list[Path]:
    return [inner for inner in path.iterdir() if inner.is_dir()] if path.is_dir() else []


def _checked(name: str) -> str:
    if name in ("", ".", "..") or any(letter in name for letter in "/\\\0"):
        raise ConfigError(f"{name!r} cannot be the name of a folder.", hint="Use letters, digits and hyphens.")
    return name
