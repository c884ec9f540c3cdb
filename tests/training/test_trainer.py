"""The training loop: it learns, it resumes to the bit, and it does what the schedule says."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional

from mbc_engine.config import Config, TrainingSettings
from mbc_engine.datasets.example import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.event_log import read_events
from mbc_engine.events import (
    CheckpointSaved,
    CodesReset,
    Event,
    QuantisationStarted,
    StatesCached,
    TrainFinished,
    TrainPaused,
    TrainResumed,
    TrainStarted,
    TrainStep,
    TrainStopped,
    Validated,
)
from mbc_engine.model.base import load_base
from mbc_engine.model.builder import build, load_pretrained
from mbc_engine.model.checkpoint import load_model, trained_state
from mbc_engine.model.code_memory import CodeMemory
from mbc_engine.model.scoring import ask_all, score
from mbc_engine.run_folder import Request, clear_request, is_at_work, make_request, read_usage, request_in, write_usage
from mbc_engine.training import keeping, trainer, usage_report
from mbc_engine.training.data import TrainingSet
from mbc_engine.training.objective import Objective
from mbc_engine.training.processes import processes_on
from mbc_engine.training.texts import LiveStates
from mbc_engine.training.trainer import learning_rate, train

FROZEN = ["model.documents.frozen=true", "model.questions.frozen=true"]
ROUTED = ["model.routing=true", "training.losses.routing=1.0"]
# Two epochs of five steps with everything that changes on the way: quantisation begins, codes die, parts accumulate.
EVERYTHING = [
    *ROUTED,
    "model.centring=true",
    "model.lora.dropout=0.2",
    "model.codebook.dead_threshold=0.3",
    "training.quantise_from=0.3",
    "training.accumulate=2",
    "training.backprop_dropout=0.5",
    "training.bank_documents=2",
]
Runner = Callable[..., list[Event]]


@pytest.fixture
def start(tmp_path: Path, examples: Any) -> Runner:
    def start(config: Config, run: str, *, validate: int = 3, until: Any = None, **options: Any) -> list[Event]:
        """All events of a training on 20 questions, or those until `until` is true of one."""
        events = []
        running = train(config, examples(20), examples(validate), tmp_path / run, cache=tmp_path / "cache", **options)
        for event in running:
            events.append(event)
            if until is not None and until(event):
                break
        running.close()
        return events

    return start


def tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def steady(events: list[Event]) -> list[Event]:
    """What must be the same in every run: without paths, clocks, starts and snapshots."""
    passing = (TrainStarted, CheckpointSaved, StatesCached, TrainPaused, TrainResumed, TrainStopped)
    kept = [event for event in events if not isinstance(event, passing)]
    return [
        replace(event, examples_per_second=0.0)
        if isinstance(event, TrainStep)
        else replace(event, seconds=0.0, model="")
        if isinstance(event, TrainFinished)
        else event
        for event in kept
    ]


def same_outcome(one: Path, other: Path) -> None:
    for file in ("snapshot.safetensors", "model/model.safetensors", "model/adapter/adapter_model.safetensors"):
        here, there = tensors(one / file), tensors(other / file)
        assert here.keys() == there.keys()
        different = [name for name, value in here.items() if not torch.equal(value, there[name])]
        assert not different, file
    logs = [steady(list(read_events(run / "events.jsonl"))) for run in (one, other)]
    assert logs[0] == logs[1]


def of(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
import torch
torch.set_num_threads(1)
from mbc_engine.config import parse_config
from mbc_engine.datasets.example import QAExample
from mbc_engine.events import TrainStep
from mbc_engine.training import trainer

folder = Path(sys.argv[1])
config = parse_config((folder / "config.toml").read_text(), "config")
rows = [line.split("\\t") for line in (folder / "examples.tsv").read_text().splitlines()]
examples = [QAExample(name, text, question, (answer,)) for name, text, question, answer in rows]
ticks = iter(range(0, 10**9, 1000))
trainer.time = SimpleNamespace(monotonic=lambda: next(ticks))  # every step is due for a snapshot
for event in trainer.train(config, examples, examples[:3], folder / "killed", cache=folder / "cache"):
    if isinstance(event, TrainStep) and event.step == 8:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_resumes_to_the_same_bits(
    tiny: Any, tmp_path: Path, start: Runner, examples: Callable[[int], list[QAExample]]
) -> None:
    config = tiny.config("gpt2", "bert", *EVERYTHING)
    whole = start(config, "whole")
    (tmp_path / "config.toml").write_text(config.to_toml())
    rows = ["\t".join((e.id, e.text, e.question, e.answers[0])) for e in examples(20)]
    (tmp_path / "examples.tsv").write_text("\n".join(rows))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=environment, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    before = list(read_events(tmp_path / "killed" / "events.jsonl"))
    # The snapshot is of step 7, in the middle of an epoch; a step more was done and is lost.
    assert (of(TrainStep, before)[-1].step, of(CheckpointSaved, before)[-1].step) == (8, 7)

    resumed = start(config, "killed", resume=True)
    assert of(TrainStarted, resumed)[0].step == 7
    assert steady(whole)[-len(steady(resumed)) :] == steady(resumed)
    same_outcome(tmp_path / "whole", tmp_path / "killed")
    assert of(CodesReset, whole)
    assert [event.step for event in of(QuantisationStarted, whole)] == [3]


@pytest.mark.parametrize("step", [1, 5, 7, 10], ids=["first", "an epoch's last", "in the middle", "the very last"])
@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_a_stopped_run_resumes_to_the_same_bits(
    tiny: Any, tmp_path: Path, start: Runner, step: int, encoder: str
) -> None:
    config = tiny.config("llama", encoder, *EVERYTHING, *(FROZEN if step == 7 else []))
    start(config, "whole")
    stop = threading.Event()

    def at(event: Event) -> bool:
        if isinstance(event, TrainStep) and event.step == step:
            stop.set()
        return False

    first = start(config, "stopped", stop=stop, until=at)
    if step < 10:
        assert first[-1] == TrainStopped(step, 10)
        assert isinstance(first[-2], CheckpointSaved)
    start(config, "stopped", resume=True)
    same_outcome(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("step", [1, 5, 7], ids=["first", "an epoch's last", "in the middle"])
def test_a_paused_run_goes_on_to_the_same_bits(
    tiny: Any, tmp_path: Path, start: Runner, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny.config("gpt2", "bert", *EVERYTHING)
    start(config, "whole")
    run, naps = tmp_path / "paused", []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            clear_request(run)

    monkeypatch.setattr(trainer.time, "sleep", nap)

    def at(event: Event) -> bool:
        if isinstance(event, TrainStep) and event.step == step:
            make_request(run, Request.PAUSE)
        return False

    events = start(config, "paused", until=at)
    names = [type(event).__name__ for event in events]
    place = names.index("TrainPaused")
    assert names[place - 1 : place + 2] == ["CheckpointSaved", "TrainPaused", "TrainResumed"]
    assert events[place : place + 2] == [TrainPaused(step, 10), TrainResumed(step, 10)]
    assert len(naps) == 3
    same_outcome(tmp_path / "whole", run)


def test_a_pause_may_end_in_a_stop(tiny: Any, tmp_path: Path, start: Runner) -> None:
    config, run = tiny.config("gpt2", "bert", *EVERYTHING), tmp_path / "run"
    start(config, "whole")

    def at(event: Event) -> bool:
        if isinstance(event, TrainStep) and event.step == 2:
            make_request(run, Request.PAUSE)
        if isinstance(event, TrainPaused):
            assert is_at_work(run)
            make_request(run, Request.STOP)
        return False

    events = start(config, "run", until=at)
    assert events[-2:] == [TrainPaused(2, 10), TrainStopped(2, 10)]
    assert (request_in(run), is_at_work(run)) == (None, False)
    start(config, "run", resume=True)
    same_outcome(tmp_path / "whole", run)


@pytest.mark.parametrize("step", [2, 5], ids=["in the middle", "an epoch's last"])
def test_a_run_stops_on_request(tiny: Any, tmp_path: Path, start: Runner, step: int) -> None:
    def at(event: Event) -> bool:
        if isinstance(event, TrainStep) and event.step == step:
            make_request(tmp_path / "run", Request.STOP)
        return False

    events = start(tiny.config(), "run", until=at)
    assert isinstance(events[-2], CheckpointSaved)
    assert events[-1] == TrainStopped(step, 10)


def test_a_run_stops_on_request_while_texts_are_read(tiny: Any, tmp_path: Path, start: Runner) -> None:
    def at(event: Event) -> bool:
        if isinstance(event, StatesCached):
            make_request(tmp_path / "run", Request.STOP)
        return False

    events = start(tiny.config("gpt2", "bert", *FROZEN), "run", until=at)
    assert events == [StatesCached(20, 20), TrainStopped(0, 10)]


def test_what_was_asked_of_an_earlier_process_is_over(tiny: Any, tmp_path: Path, start: Runner) -> None:
    (tmp_path / "run").mkdir()
    make_request(tmp_path / "run", Request.STOP)
    assert isinstance(start(tiny.config(), "run")[-1], TrainFinished)


def test_the_usage_of_codes_is_shown_at_most_once_a_second(
    tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take 0.4 seconds: after the quantisation at step 3, that of steps 4 and 7 is shown, and the last twice."""
    shown: list[int] = []

    def write(run: Path, usage: Any, step: int) -> None:
        shown.append(step)
        write_usage(run, usage, step)

    monkeypatch.setattr(usage_report, "write_usage", write)
    now = [0.0]
    monkeypatch.setattr(usage_report, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def at(event: Event) -> bool:
        if isinstance(event, TrainStep):
            now[0] += 0.4
        return False

    start(tiny.config("gpt2", "bert", "training.quantise_from=0.3"), "run", until=at)
    assert shown == [4, 7, 10, 10]
    usage = read_usage(tmp_path / "run")
    assert usage is not None
    state = tensors(tmp_path / "run" / "snapshot.safetensors")
    assert torch.equal(torch.from_numpy(usage), state["model.codebook.usage"])


def test_an_abandoned_run_without_snapshot_starts_over(tiny: Any, tmp_path: Path, start: Runner) -> None:
    config = tiny.config()
    start(config, "whole")
    start(config, "left", until=lambda event: isinstance(event, TrainStep) and event.step == 2)
    again = start(config, "left", resume=True)
    assert of(TrainStarted, again)[0].step == 0
    same_outcome(tmp_path / "whole", tmp_path / "left")
    assert [event.step for event in of(TrainStep, list(read_events(tmp_path / "left" / "events.jsonl")))] == [
        *range(1, 11)
    ]


def test_every_snapshot_is_taken_in_time(
    tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(trainer.time, "monotonic", lambda: next(clock))
    events = start(tiny.config(), "run")
    assert [event.step for event in of(CheckpointSaved, events)] == [*range(1, 11)]


def test_a_finished_run_has_nothing_left_to_do(tiny: Any, tmp_path: Path, start: Runner) -> None:
    start(tiny.config(), "run")
    again = start(tiny.config(), "run", resume=True)
    assert [type(event) for event in again] == [TrainStarted, TrainFinished]


def test_a_run_is_not_overwritten(tiny: Any, start: Runner) -> None:
    start(tiny.config(), "run", until=lambda event: True)
    with pytest.raises(ConfigError, match="holds a run already"):
        start(tiny.config(), "run")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("File too large")])
def test_a_full_disk_is_told_and_the_run_goes_on_from_its_snapshot(
    tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(tensors: Any, path: Path, notes: Any) -> None:
        path.write_bytes(b"half")
        raise error

    config = tiny.config("gpt2", "bert")
    start(config, "run", until=lambda event: isinstance(event, CheckpointSaved))
    before = (tmp_path / "run" / "snapshot.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("mbc_engine.model.tensor_file.save_file", full)
        with pytest.raises(ConfigError, match="cannot read or write its files") as caught:
            start(config, "run", resume=True)
    assert str(error) in caught.value.message
    assert (tmp_path / "run" / "snapshot.safetensors").read_bytes() == before
    assert not (tmp_path / "run" / "snapshot.partial").exists()
    assert not is_at_work(tmp_path / "run")
    assert isinstance(start(config, "run", resume=True)[-1], TrainFinished)


def test_nothing_to_train_on_is_told_before_anything_is_loaded(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        next(train(tiny.config(), [], [], tmp_path / "run", cache=tmp_path))


def test_what_happens_is_logged_in_order(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", *FROZEN), "run")
    logged = list(read_events(tmp_path / "run" / "events.jsonl"))
    assert [event for event in logged if not isinstance(event, StatesCached)] == [
        event for event in events if not isinstance(event, StatesCached)
    ]
    names = [type(event).__name__ for event in events if not isinstance(event, (StatesCached, CodesReset))]
    epoch = ["TrainStep"] * 5 + ["Validated", "CheckpointSaved"]
    assert names == ["TrainStarted", *epoch, *epoch, "TrainFinished"]
    started = of(TrainStarted, events)[0]
    assert (started.total_steps, started.examples, started.documents) == (10, 20, 20)
    assert [event.epoch for event in of(TrainStep, events)] == [0] * 5 + [1] * 5
    assert of(Validated, events)[0].documents == 3


def test_the_runs_model_is_the_best_validated_one(
    tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1 of 5, 9, 9 and 2 percent: the second epoch's model is kept."""
    real, figures = trainer.score, iter((5.0, 9.0, 9.0, 2.0))
    monkeypatch.setattr(trainer, "score", lambda outcomes: replace(real(outcomes), f1=next(figures)))
    kept = []
    monkeypatch.setattr(
        keeping,
        "save_model",
        lambda *given, save=keeping.save_model, **how: (kept.append(given[2].name), save(*given, **how)),
    )
    states: list[dict[str, Tensor]] = []
    config = tiny.config("gpt2", "bert", "training.epochs=4")

    def at(event: Event) -> bool:
        if isinstance(event, CheckpointSaved):
            states.append(tensors(Path(event.path)))
        return False

    events = start(config, "run", until=at)
    assert [event.is_best for event in of(Validated, events)] == [True, True, False, False]
    assert len(kept) == 2
    best = tensors(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(value, states[1][f"model.{name}"]) for name, value in best.items())
    assert not all(torch.equal(value, states[3][f"model.{name}"]) for name, value in best.items())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.toml",
        "events.jsonl",
        "lock",
        "model",
        "snapshot.safetensors",
        "usage.safetensors",
    ]


def test_a_second_training_in_the_same_folder_is_refused(tiny: Any, tmp_path: Path, examples: Any) -> None:
    first = train(tiny.config("gpt2", "bert"), examples(20), [], tmp_path / "run", cache=tmp_path / "cache")
    next(first)
    second = train(tiny.config("gpt2", "bert"), examples(20), [], tmp_path / "run", cache=tmp_path / "c", resume=True)
    with pytest.raises(ConfigError, match="Another training is at work"):
        next(second)
    first.close()


def test_without_validation_the_last_model_is_kept(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config(), "run", validate=0)
    assert not of(Validated, events)
    state = tensors(tmp_path / "run" / "snapshot.safetensors")
    for name, value in tensors(tmp_path / "run" / "model" / "model.safetensors").items():
        assert torch.equal(value, state[f"model.{name}"])


def test_a_continuous_model_is_never_the_runs_model(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.7"), "run")
    assert [event.is_best for event in of(Validated, events)] == [False, True]


def test_documents_are_continuous_until_quantisation_and_codes_after(tiny: Any, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.3", "training.reset_codes=false"), "run")
    steps = of(TrainStep, events)
    assert [event.vq_loss > 0 for event in steps] == [False] * 3 + [True] * 7
    assert [event.perplexity > 1 for event in steps] == [False] * 3 + [True] * 7
    assert [event.dead_codes for event in steps[:4]] == [8, 8, 8, 0]
    (began,) = of(QuantisationStarted, events)
    assert (began.step, began.vectors) == (3, 20)
    assert events.index(began) == events.index(steps[3]) - 1


def test_the_last_step_at_the_latest_has_codes(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.99"), "run")
    assert [event.step for event in of(QuantisationStarted, events)] == [9]
    assert Path(of(TrainFinished, events)[0].model).is_dir()


def test_dead_codes_are_reset_only_where_asked(tiny: Any, start: Runner) -> None:
    with_reset = start(tiny.config("gpt2", "bert", "training.reset_codes=true"), "with")
    assert of(CodesReset, with_reset)[0] == CodesReset(0, of(CodesReset, with_reset)[0].count)
    assert 0 < of(CodesReset, with_reset)[0].count <= 7
    without = start(tiny.config("gpt2", "bert", "training.reset_codes=false"), "without")
    assert not of(CodesReset, without)
    assert of(TrainStep, with_reset)[0].dead_codes == 0
    assert of(TrainStep, without)[0].dead_codes > 0


def test_training_starts_from_a_given_model(tiny: Any, tmp_path: Path, start: Runner) -> None:
    start(tiny.config("gpt2", "bert", "training.quantise_from=0.2"), "first")
    config = tiny.config("gpt2", "bert", "training.quantise_from=0.2", "training.learning_rate=1e-30")
    events = start(config, "second", start=tmp_path / "first" / "model")
    assert not of(QuantisationStarted, events)
    first, second = (trained_state(load_model(tmp_path / run / "model")) for run in ("first", "second"))
    assert all(torch.equal(value, second[name]) for name, value in first.items() if "codebook" not in name)


def test_models_that_remember_words_are_made_elsewhere(tiny: Any, tmp_path: Path, start: Runner) -> None:
    words = ("model.routing=true", "model.read=routed", "model.words={}")
    with pytest.raises(ConfigError, match="The model to train remembers words; such a model is made by recipes/mini"):
        start(tiny.config("gpt2", "bert", *words), "run")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.toml").write_text(tiny.config("gpt2", "bert", *words).to_toml())
    with pytest.raises(ConfigError, match="model remembers words"):
        start(tiny.config(), "run", start=tmp_path / "model")
    assert not (tmp_path / "run").exists()


def test_a_batch_in_parts_has_the_gradient_of_the_weighted_mean(
    tiny: Any, start: Runner, examples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three questions in two parts: two thirds of the first part's loss and one of the second's, each its own bank."""
    config = tiny.config("gpt2", "bert", "training.batch_size=3", "training.accumulate=2", "training.reset_codes=false")
    seen: list[dict[str, Tensor]] = []

    def keep(parameters: Any, norm: float) -> None:
        seen.append({str(tuple(value.shape)): value.grad.clone() for value in parameters if value.grad is not None})

    monkeypatch.setattr(trainer, "clip_gradients", keep)
    start(config, "run", until=lambda event: isinstance(event, TrainStep))

    data = TrainingSet(examples(20))
    torch.manual_seed(0)
    model = build(config.model, load_pretrained(config.model)).train()
    states = LiveStates(model.documents, data.documents), LiveStates(model.questions, data.questions)
    objective = Objective(model, data, *states, config.training, processes_on("cpu"))
    order = next(data.epoch(0, 3, seed=0)).examples
    torch.manual_seed(0)  # the first step's
    chance = torch.Generator()
    first, last = (objective(data.batch(part), chance).total for part in (order[:2], order[2:]))
    total = first * (2 / 3) + last * (1 / 3)
    total.backward()
    (gradients,) = seen
    torch.testing.assert_close(gradients[str(tuple(model.prefix.up.shape))], model.prefix.up.grad)
    torch.testing.assert_close(gradients[str(tuple(model.codebook.books.shape))], model.codebook.books.grad)


def test_settings_of_the_optimiser_are_the_papers(tiny: Any, start: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    clips: list[float] = []
    monkeypatch.setattr(trainer, "clip_gradients", lambda values, norm: clips.append(norm))
    start(tiny.config("gpt2", "bert", "training.clip=7.0"), "run", until=lambda event: isinstance(event, TrainStep))
    assert clips == [7.0]


@pytest.mark.parametrize(
    ("total", "warmup", "expected"),
    [
        (1000, 0.01, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0]),
        (10, 0.3, [1 / 3, 2 / 3, 1.0, 1.0]),
        (10, 0.0, [1.0, 1.0]),
        (3, 0.01, [1.0, 1.0]),
    ],
)
def test_the_learning_rate_rises_and_then_stays(total: int, warmup: float, expected: list[float]) -> None:
    settings = TrainingSettings(learning_rate=2e-5, warmup=warmup)
    rates = [learning_rate(step, total, settings) / 2e-5 for step in range(len(expected))]
    assert rates == pytest.approx(expected)
    assert learning_rate(total - 1, total, settings) == 2e-5


def test_the_schedules_rate_is_the_optimisers(tiny: Any, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.warmup=0.5"), "run")
    rates = [event.learning_rate for event in of(TrainStep, events)]
    assert rates == pytest.approx([0.0002, 0.0004, 0.0006, 0.0008, *[0.001] * 6])


def teach(folder: Path, out: Path, examples: list[QAExample]) -> None:
    """Teach a base LM how answers look, with random ones: it knows the form and none of the facts."""
    base = load_base(str(folder))
    model = base.model.requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    for _ in range(150):
        questions = [examples[index].question for index in torch.randint(len(examples), (16,)).tolist()]
        answers = [examples[index].answers[0] for index in torch.randint(len(examples), (16,)).tolist()]
        texts = base.asked(questions, answers, question_window=40, answer_window=9)
        positions = (texts.mask.cumsum(1) - 1).clamp_min(0)
        logits = model(input_ids=texts.ids, attention_mask=texts.mask, position_ids=positions).logits
        width, chosen = texts.target_mask.shape[1], texts.target_mask.bool()
        functional.cross_entropy(logits[:, -width - 1 : -1][chosen], texts.ids[:, -width:][chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.config.update({"resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0})
    model.save_pretrained(out)
    base.tokenizer.save_pretrained(out)


def test_fifty_facts_are_learned_and_answered_from_their_codes(
    tiny: Any, tmp_path: Path, examples: Callable[[int], list[QAExample]]
) -> None:
    facts = examples(50)
    teach(tiny.bases["gpt2"], tmp_path / "taught", facts)
    config = replace(tiny, bases={"gpt2": tmp_path / "taught"}).config(
        "gpt2",
        "bert",
        *FROZEN,
        *ROUTED,
        "model.read=routed",
        "model.routed_documents=1",
        "model.centring=true",
        "model.codebook={ codes = 32, levels = 2, per_position = true }",
        "training.bank_documents=1",
        "training.batch_size=25",
        "training.epochs=120",
        "training.learning_rate=0.003",
        "training.quantise_from=0.46",
    )
    steps = of(TrainStep, list(train(config, facts, [], tmp_path / "run", cache=tmp_path / "cache")))
    assert steps[-1].question_loss < 0.1 < 1.0 < steps[0].question_loss
    assert steps[-1].route_accuracy == 1.0

    model = load_model(tmp_path / "run")
    scores = score(list(ask_all(model, facts)))
    assert scores.exact_match >= 95
    assert scores.first_source >= 95
    # The answers came from the codes: with one document remembered, nearly all of them are gone.
    memory = CodeMemory(model.memorise([facts[0].text]), model.codebook)
    answers = model.answer([fact.question for fact in facts], memory)
    assert answers[0].text == facts[0].answers[0]
    assert sum(answer.text == fact.answers[0] for answer, fact in zip(answers, facts, strict=True)) < 15
