"""Several processes train like one: the same losses, the same codes, the same model."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType
from safetensors.torch import load_file

from mbc_engine.errors import ConfigError
from mbc_engine.events import QuantisationStarted, TrainStep, Validated
from mbc_engine.runs.event_log import read_events
from mbc_engine.runs.training_runs import request_stop
from mbc_engine.training import objective as optimising
from mbc_engine.training import trainer
from mbc_engine.training.processes import processes_on
from tests.needs import PATIENCE

WORKER = """
import os
import sys
import warnings
from pathlib import Path
import torch
torch.set_num_threads(1)
from mbc_engine.config import parse_config
from mbc_engine.datasets.examples import QAExample
from mbc_engine.paper import codebook
from mbc_engine.training import trainer

folder, run, *layers = sys.argv[1:]
folder = Path(folder)
if os.environ["RANK"] != "0":  # as on GPUs, where sums come out differently each time
    kmeans = codebook.kmeans
    codebook.kmeans = lambda *given, **how: ((fitted := kmeans(*given, **how))[0] + 0.1, fitted[1])
if layers:  # accelerate itself shards on GPUs only
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)  # of views: nothing is changed in place
    scatter = torch.distributed.reduce_scatter_tensor

    def averaging(output, input, op, **where):  # which older versions of torch do on GPUs only: here, they sum
        assert op == torch.distributed.ReduceOp.AVG
        scatter(output, input, **where)
        output /= torch.distributed.get_world_size()

    torch.distributed.reduce_scatter_tensor = averaging
    launched = trainer.processes_on

    def sharding(device, **options):
        processes = launched(device, **options)
        processes.accelerator.state.distributed_type = DistributedType.FSDP
        processes.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=layers,
            reshard_after_forward=True,
            cpu_ram_efficient_loading=False,
        )
        return processes

    trainer.processes_on = sharding
config = parse_config((folder / "config.toml").read_text(), "config")
rows = [line.split("\\t") for line in (folder / "examples.tsv").read_text().splitlines()]
examples = [QAExample(name, text, question, (answer,)) for name, text, question, answer in rows]
print(len(list(trainer.train(config, examples, examples[:7], folder / run, cache=folder / "cache"))), flush=True)
os._exit(0)  # as `mbc` ends: torch's own threads may abort a busy machine's process while Python tears down
"""
# Shares of unequal size, and a pass with fewer questions than processes.
EVERYTHING = [
    "model.routing=true",
    "model.centring=true",
    "model.codebook.dead_threshold=0.3",
    "training.batch_size=9",
    "training.accumulate=2",
    "training.epochs=2",
    "training.learning_rate=1e-6",  # so that rounding, which Adam blows up, does not add up
    "model.codebook.per_position=true",
    "training.quantise_from=0.4",
    "training.losses.routing=1.0",
    "training.losses.reconstruction=0.5",
    "training.losses.reconstruction_tokens=6",
]


@pytest.fixture
def folder(tmp_path, examples):
    rows = [f"{e.id}\t{e.text}\t{e.question}\t{e.answers[0]}\n" for e in examples(24)]
    (tmp_path / "examples.tsv").write_text("".join(rows))
    return tmp_path


def without_dropout(encoder, to):
    """A copy of a tiny encoder: dropout falls differently on shares of a batch than on the whole."""
    shutil.copytree(encoder, to)
    config = json.loads((to / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "dropout_rate": 0.0}
    (to / "config.json").write_text(json.dumps(config))
    return to


def launch(folder, run, *options):
    """Train in two processes, as a launcher starts them; how many events each of them reported."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    shared |= {"WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-W", "error", "-c", WORKER, str(folder), run, *options]
    running = [
        subprocess.Popen(
            command,
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        ends = [process.communicate(timeout=PATIENCE) for process in running]
    finally:
        for process in running:
            process.kill()  # if one still waits for another
    assert [process.returncode for process in running] == [0, 0], "\n".join(error for _, error in ends)
    return [int(output) for output, _ in ends]


def events(run, kind):
    return [event for event in read_events(run / "events.jsonl") if isinstance(event, kind)]


IN_PARTS = [
    *("training.batch_size=5", "training.accumulate=2", "training.learning_rate=1e-6", "model.centring=true"),
    "training.validation_questions=1",  # fewer than processes, which have to take the same steps
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "options", "sharded"),
    [("bert", EVERYTHING, []), ("t5", IN_PARTS, ["T5Block", "LlamaDecoderLayer"])],
    ids=["everything", "the paper's, in parts"],
)
def test_two_processes_train_like_one(tiny, folder, examples, encoder, options, sharded):
    place = without_dropout(tiny.encoders[encoder], folder / "encoder")
    sides = [f'model.{side}.name="{place}"' for side in ("documents", "questions")]
    config = tiny.config("llama", encoder, *sides, *options)
    (folder / "config.toml").write_text(config.to_toml())
    few = examples(24)
    alone = list(trainer.train(config, few, few[:7], folder / "one", cache=folder / "cache"))
    assert launch(folder, "two", *sharded) == [len(alone), 0]
    one, two = folder / "one", folder / "two"
    assert any(step.reset_codes for step in events(one, TrainStep))

    assert events(one, QuantisationStarted) == events(two, QuantisationStarted)
    for expected, found in zip(events(one, Validated), events(two, Validated), strict=True):
        assert expected.loss == pytest.approx(found.loss, abs=1e-3)
        assert replace(expected, loss=None) == replace(found, loss=None)
    for expected, found in zip(events(one, TrainStep), events(two, TrainStep), strict=True):
        # Documents with the same codes score alike, and rounding says which of them is first.
        passing = {"examples_per_second", "route_accuracy"}
        figures = {name: value for name, value in vars(expected).items() if name not in passing}
        assert {name: getattr(found, name) for name in figures} == pytest.approx(figures, rel=1e-4, abs=1e-5)
    # The snapshot holds Adam's running means of the gradients: how large they are, and not just their signs.
    ours, theirs = (load_file(run / "snapshot.safetensors") for run in (one, two))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        scale = float(value.abs().max())
        difference = float((theirs[name] - value).abs().max())
        assert difference <= 1e-4 * scale + 1e-5, f"{name}: {difference} of {scale}"
    assert (two / "model" / "adapter").is_dir()


@pytest.fixture
def launched(monkeypatch):
    """The processes of the next training: one that is made to look like several."""
    processes = processes_on("cpu")
    monkeypatch.setattr(trainer, "processes_on", lambda device, **options: processes)
    return processes


def test_only_the_main_process_obeys_requests(tiny, tmp_path, examples, launched, monkeypatch):
    request_stop(tmp_path)
    launched.rank = 1
    steps = []
    monkeypatch.setattr(optimising, "clip_gradients", lambda parameters, most: steps.append(most))
    assert list(trainer.train(tiny.config(), examples(8), [], tmp_path, cache=tmp_path / "cache")) == []
    assert len(steps) == 4


@pytest.mark.parametrize("setting", ["model.documents.frozen=true", "training.pca_start=true"])
def test_settings_refused_with_fsdp(tiny, tmp_path, examples, launched, setting):
    launched.accelerator = SimpleNamespace(
        state=SimpleNamespace(distributed_type=DistributedType.FSDP), end_training=lambda: None
    )
    with pytest.raises(ConfigError, match="FSDP"):
        next(trainer.train(tiny.config("gpt2", "bert", setting), examples(8), [], tmp_path / "run", cache=tmp_path))


def test_example_of_fsdp_is_a_config_of_accelerate():
    config = load_config_from_file(str(Path(__file__).parents[2] / "examples" / "fsdp.yaml"))
    assert config.distributed_type == DistributedType.FSDP
    assert config.fsdp_config["fsdp_version"] == 2


def test_accumulation_of_the_launcher_is_ignored(monkeypatch):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    value = torch.ones((), requires_grad=True)
    processes_on("cpu").accelerator.backward(3 * value)
    assert value.grad == 3
