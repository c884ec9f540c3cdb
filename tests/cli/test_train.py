import json
import signal

import pytest

from mbc_cli.local_models import new_run
from mbc_engine.events import TrainStep
from mbc_engine.training import trainer
from tests.newswire import OTHERS


def test_train_ingest_ask(mbc, preset, questions, home, notes, tiny):
    """With another base LM than the preset's, which a setting does not override."""
    (home / "other").symlink_to(tiny.bases["llama"])
    base = ("--base", "other", "--set", "model.base=no-such-base")
    one_step = ("--set", "training.epochs=1", "--set", "training.batch_size=8")
    result = mbc("train", "--preset", preset, "--data", questions(8), "--run", "first", *base, *one_step)
    run = home / "XDG_DATA_HOME" / "mbc" / "runs" / "first"
    assert f'base = "{home / "other"}"' in (run / "config.toml").read_text()
    adapter = json.loads((run / "model" / "adapter" / "adapter_config.json").read_text())
    assert sorted(adapter["target_modules"]) == ["k_proj", "v_proj"]
    assert result.stdout == f"{run / 'model'}\n"
    assert f'mbc ask "..." --model {run / "model"}' in result.stderr
    assert "exact match" in result.stderr
    assert " trainable parameters, 1 step\n" in result.stderr and "Trained 1 step in " in result.stderr
    mbc("ingest", notes, "--bank", "b.mbc", "--model", run)
    mbc("ask", "Where did Ada move?", "--bank", "b.mbc", "--model", run)


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("", 2, "A new training needs --preset and --data."),
        ("--preset smollm2-135m", 2, "A new training needs --data."),
        ("--preset smollm2-135m --data none.csv", 3, "There is no file"),
        ("--preset smollm2-135m --data OTHERS --run /dev/null/run", 2, "/dev/null/run cannot be written."),
        ("--preset smollm2-135m --data OTHERS --set nonsense", 2, "--set 'nonsense' is not of the form"),
        ("--preset smollm2-135m --data OTHERS --base no-such-base", 4, "no-such-base could not be opened"),
        ("--resume", 2, "Resume which run?"),
        ("--resume --run nothing", 2, "There is no run to resume at"),
        ("--resume --run damaged", 2, "command.json cannot be read: it does not hold a command."),
        ("--resume --run nothing --preset smollm2-135m", 2, "A resumed run keeps its preset"),
    ],
)
def test_errors(refusal, home, typed, code, message):
    damaged = home / "XDG_DATA_HOME" / "mbc" / "runs" / "damaged"
    damaged.mkdir(parents=True)
    (damaged / "command.json").write_text("[]")
    arguments = [OTHERS if word == "OTHERS" else word for word in typed.split()]
    assert message in refusal(code, "train", *arguments)
    assert [*damaged.parent.iterdir()] == [damaged]  # no run was begun


def test_trainings_that_begin_at_once_have_runs_of_their_own(tmp_path):
    assert [new_run("presets/a.toml", tmp_path / "runs").name for _ in range(2)] == ["a-1", "a-2"]


def test_ctrl_c_and_resume(mbc, refusal, preset, questions, home, monkeypatch):
    data = questions(8)
    config = home / "XDG_CONFIG_HOME" / "mbc" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[train]\npreset = "{preset}"\ndevice = "cpu"\n')

    def interrupted(*arguments, **options):
        for event in work(*arguments, **options):
            yield event
            if isinstance(event, TrainStep):
                signal.raise_signal(signal.SIGINT)

    work = trainer.train
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train", interrupted)
        for options in (("--data", data.name, "--set", "training.epochs=3"), ("--resume",)):
            result = mbc("train", *options, "--run", "long", "--json", "--quiet", code=130)
            assert json.loads(result.stdout.splitlines()[-1])["state"] == "stopped"
            assert result.stderr.splitlines()[-1] == "Stopped. Continue with: mbc train --resume --run long"
    for option in ("preset", "data", "validation", "base", "set", "from"):
        assert "keeps its preset" in refusal(2, "train", "--resume", "--run", "long", f"--{option}", data)
    config.write_text(config.read_text().replace('"cpu"', '"abacus"'))  # a run keeps its settings
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    result = mbc("runs", "resume", "long", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert (events[0]["step"], events[-1]["event"]) == (2, "TrainFinished")
