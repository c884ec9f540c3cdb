"""The training loop: it learns, does things in their order, keeps the best model, and reports to trackers."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event as Record
from torch import Tensor
from torch.nn import functional

from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import (
    CheckpointSaved,
    Event,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStep,
    Validated,
)
from mbc_engine.lm.base import load_base
from mbc_engine.mini.model import save
from mbc_engine.paper.checkpoint import load_model, trained_state
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.paper.scoring import ask_all, memorise_documents, score
from mbc_engine.runs.event_log import read_events
from mbc_engine.runs.training_runs import read_usage, write_usage
from mbc_engine.training import run_files as keeping
from mbc_engine.training import trainer
from mbc_engine.training import warm_start as validation
from mbc_engine.training.trainer import train
from tests.training.conftest import FROZEN, ROUTED, Runner, of, tensors


def test_usage_is_written_once_a_second(
    tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take 0.4 seconds: after the quantisation at step 3, that of steps 4 and 7 is shown, and the last twice."""
    shown: list[int] = []

    def write(run: Path, usage: Any, step: int) -> None:
        shown.append(step)
        write_usage(run, usage, step)

    monkeypatch.setattr(trainer, "write_usage", write)
    now = [0.0]

    def tick() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=tick))

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


def test_order_of_events(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", *FROZEN), "run")
    logged = list(read_events(tmp_path / "run" / "events.jsonl"))
    assert [event for event in logged if not isinstance(event, Progressed)] == [
        event for event in events if not isinstance(event, Progressed)
    ]
    names = [type(event).__name__ for event in events if not isinstance(event, Progressed)]
    epoch = ["TrainStep"] * 5 + ["Validated", "CheckpointSaved"]
    assert names == ["TrainStarted", *epoch, *epoch, "TrainFinished"]
    started = of(TrainStarted, events)[0]
    assert (started.total_steps, started.examples, started.documents) == (10, 20, 20)
    assert [event.epoch for event in of(TrainStep, events)] == [0] * 5 + [1] * 5
    assert of(Validated, events)[0].documents == 3


def test_best_model_is_kept(tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of 5, 2, 2 and 9: the second epoch's model is kept."""
    real, losses = trainer.validate, iter((5.0, 2.0, 2.0, 9.0))
    monkeypatch.setattr(trainer, "validate", lambda *given: replace(real(*given), loss=next(losses)))
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


@pytest.mark.slow
def test_patience(tiny: Any, start: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of 5, 2, 2 and 9, killed after the third epoch's snapshot: two epochs without a lower one are enough."""
    real, losses = trainer.validate, iter((5.0, 2.0, 2.0, 9.0))
    monkeypatch.setattr(trainer, "validate", lambda *given: replace(real(*given), loss=next(losses)))
    config = tiny.config("gpt2", "bert", "training.epochs=9", "training.patience=2")
    start(config, "run", until=lambda event: isinstance(event, CheckpointSaved) and event.step == 15)
    rest = start(config, "run", resume=True)
    assert [event.epoch for event in of(Validated, rest)] == [3]
    assert isinstance(rest[-1], TrainFinished)
    again = start(config, "run", resume=True)
    assert not of(TrainStep, again)


@pytest.mark.slow
def test_validation_steps(tiny: Any, start: Runner, tmp_path: Path) -> None:
    """After every third of five steps, and after each epoch; one that is interrupted goes on in the same way."""
    config = tiny.config("gpt2", "bert", "training.validation_steps=3")
    whole = start(config, "run")
    assert [(event.step, event.epoch) for event in of(Validated, whole)] == [(3, 0), (5, 0), (6, 1), (9, 1), (10, 1)]
    start(config, "other", until=lambda event: isinstance(event, CheckpointSaved) and event.step == 6)
    rest = start(config, "other", resume=True)
    assert of(Validated, rest) == of(Validated, whole)[3:]


def test_validation_losses(
    tiny: Any, start: Runner, tmp_path: Path, examples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads the questions' own documents, the other as many, spread over those trained on."""
    real, banks = validation.answer_losses, []
    monkeypatch.setattr(
        validation, "answer_losses", lambda model, texts, asked: banks.append(texts) or real(model, texts, asked)
    )
    (event,) = of(Validated, start(tiny.config("gpt2", "bert", "training.epochs=1"), "run"))
    model, asked, trained = load_model(tmp_path / "run" / "model"), examples(3), examples(20)
    assert banks == [[one.text for one in asked], [trained[place].text for place in (0, 6, 13)]]
    for found, texts in zip((event.loss, event.wrong_loss), banks, strict=True):
        memory, _ = memorise_documents(model, texts)
        losses = []
        for one in asked:
            prefix = model.prefix(model.read([one.question], memory).modulation)
            losses.append(-model.base.log_likelihood(prefix, [one.question], [*one.answers]).item())
        assert found == pytest.approx(sum(losses) / 3, rel=1e-3)


def test_run_is_locked(tiny: Any, tmp_path: Path, examples: Any) -> None:
    first = train(tiny.config("gpt2", "bert"), examples(20), [], tmp_path / "run", cache=tmp_path / "cache")
    next(first)
    second = train(tiny.config("gpt2", "bert"), examples(20), [], tmp_path / "run", cache=tmp_path / "c", resume=True)
    with pytest.raises(ConfigError, match="Another training is running in"):
        next(second)
    first.close()


def test_last_model_is_kept_without_validation(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config(), "run", validate=0)
    assert not of(Validated, events)
    state = tensors(tmp_path / "run" / "snapshot.safetensors")
    for name, value in tensors(tmp_path / "run" / "model" / "model.safetensors").items():
        assert torch.equal(value, state[f"model.{name}"])


def test_warm_start_is_never_the_best_model(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.7"), "run")
    assert [event.is_best for event in of(Validated, events)] == [False, True]


def test_refit_codes(tiny: Any, tmp_path: Path, start: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With means of the vectors in place of learned codes, the last model's vectors are nearer to their codes."""
    real, fits = trainer.fit_codebook, list[tuple[float, float]]()

    def error(model: Any, documents: Any) -> float:
        with torch.no_grad():
            amortizer = model.documents.amortizer
            vectors = amortizer.centre(amortizer.readout(*documents.states(range(20))))
            return float((vectors - model.codebook.quantize(vectors).vectors).square().sum())

    def fit(model: Any, documents: Any, count: int) -> int:
        before, fitted_to = error(model, documents), real(model, documents, count)
        fits.append((before, error(model, documents)))
        return fitted_to

    monkeypatch.setattr(trainer, "fit_codebook", fit)
    config = tiny.config("gpt2", "bert", "training.quantise_from=0.3", "training.refit_codes=true")
    events = start(config, "run")
    assert len(of(QuantisationStarted, events)) == 1
    assert len(fits) == 2
    assert all(after < before for before, after in fits)
    kept, last = (tensors(tmp_path / "run" / name) for name in ("model/model.safetensors", "snapshot.safetensors"))
    assert of(Validated, events)[-1].is_best == torch.equal(kept["codebook.books"], last["model.codebook.books"])


def test_quantise_from(tiny: Any, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.3", "training.reset_codes=false"), "run")
    steps = of(TrainStep, events)
    assert [event.vq_loss > 0 for event in steps] == [False] * 3 + [True] * 7
    assert [event.perplexity > 1 for event in steps] == [False] * 3 + [True] * 7
    assert [event.dead_codes for event in steps[:4]] == [8, 8, 8, 0]
    (began,) = of(QuantisationStarted, events)
    assert (began.step, began.vectors) == (3, 20)
    assert events.index(began) == events.index(steps[3]) - 1


def test_last_step_is_quantised(tiny: Any, tmp_path: Path, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.99"), "run")
    assert [event.step for event in of(QuantisationStarted, events)] == [9]
    assert Path(of(TrainFinished, events)[0].model).is_dir()


def test_start_from_a_model(tiny: Any, tmp_path: Path, start: Runner) -> None:
    start(tiny.config("gpt2", "bert", "training.quantise_from=0.2"), "first")
    config = tiny.config("gpt2", "bert", "training.quantise_from=0.2", "training.learning_rate=1e-30")
    events = start(config, "second", start=tmp_path / "first" / "model")
    assert not of(QuantisationStarted, events)
    first, second = (trained_state(load_model(tmp_path / run / "model")) for run in ("first", "second"))
    assert all(torch.equal(value, second[name]) for name, value in first.items() if "codebook" not in name)


def teach(folder: Path, out: Path, examples: list[QAExample]) -> None:
    """Teach a base LM how answers look, with random ones: it knows the form and none of the facts."""
    base = load_base(str(folder))
    model = base.model.requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    for _ in range(150):
        questions = [examples[index].question for index in torch.randint(len(examples), (16,)).tolist()]
        answers = [examples[index].answers[0] for index in torch.randint(len(examples), (16,)).tolist()]
        texts = base.prompt_tokenizer.question_answer_targets(questions, answers, question_window=40, answer_window=9)
        logits = model(input_ids=texts.ids, attention_mask=texts.mask).logits
        functional.cross_entropy(logits[:, :-1][texts.target_mask[:, 1:]], texts.targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.config.update({"resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0})
    model.save_pretrained(out)
    base.tokenizer.save_pretrained(out)


@pytest.mark.slow
def test_fifty_facts_are_learned(tiny: Any, tmp_path: Path, examples: Callable[[int], list[QAExample]]) -> None:
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
    assert steps[0].question_loss > 1.0
    assert steps[-1].question_loss < 0.1
    assert steps[-1].route_accuracy == 1.0

    model = load_model(tmp_path / "run")
    scores = score(list(ask_all(model, facts)))
    assert scores.exact_match >= 95
    assert scores.first_source >= 95
    # The answers came from the codes: with one document remembered, nearly all of them are gone.
    memory = CodeMemory(model.memorise([facts[0].text]), model.codebook)
    answers = model.answer_from([fact.question for fact in facts], memory)
    assert answers[0][0] == facts[0].answers[0]
    assert sum(answer == fact.answers[0] for (answer, _), fact in zip(answers, facts, strict=True)) < 15


def test_nothing_to_train_on(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        next(train(tiny.config(), [], [], tmp_path / "run", cache=tmp_path))


def test_start_from_a_model_of_another_kind(tiny: Any, tmp_path: Path, start: Runner) -> None:
    save(tiny.retriever_reader(), tmp_path / "model")
    with pytest.raises(ConfigError, match="describes a retriever-reader such as mini; this needs a model of the paper"):
        start(tiny.config(), "run", start=tmp_path / "model")
    assert not (tmp_path / "run").exists()


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    """What TensorBoard's files hold, by name and step: records of a length, its checksum, data, its checksum."""
    found = {}
    for path in folder.rglob("events.out.tfevents.*"):
        rest = path.read_bytes()
        while rest:
            (length,) = struct.unpack("<Q", rest[:8])
            record = Record.FromString(rest[12 : 12 + length])
            found |= {(value.tag, record.step): value.simple_value for value in record.summary.value}
            rest = rest[16 + length :]
    return found


def test_tensorboard(tiny: Any, tmp_path: Path, examples: Any) -> None:
    run, config = tmp_path / "run", tiny.config("gpt2", "bert", "training.epochs=1")
    events = list(train(config, examples(12), examples(3), run, cache=tmp_path / "cache", trackers=["tensorboard"]))
    found = scalars(run / "tracked")
    steps = [event for event in events if isinstance(event, TrainStep)]
    assert len(steps) == 3
    for event in steps:
        assert found["train/question_loss", event.step] == pytest.approx(event.question_loss, rel=1e-5)
        assert found["train/learning_rate", event.step] == pytest.approx(event.learning_rate, rel=1e-5)
    (validated,) = (event for event in events if isinstance(event, Validated))
    assert found["validation/f1", validated.step] == pytest.approx(validated.f1)
    assert not any(name.endswith(("/step", "/epoch")) for name, _ in found)


def test_missing_tracker(tiny: Any, tmp_path: Path, examples: Any) -> None:
    running = train(tiny.config(), examples(4), [], tmp_path / "run", cache=tmp_path, trackers=["crayon"])
    with pytest.raises(ConfigError, match="'crayon'") as error:
        next(running)
    assert "tensorboard" in (error.value.hint or "")
    assert not (tmp_path / "run").exists()
