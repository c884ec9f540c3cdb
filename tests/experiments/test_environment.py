"""What ran an evaluation."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import torch

import mbc_engine
from mbc_engine.experiments.running import environment


def test_it_tells_versions_machine_seed_and_date():
    found = environment(7, command="mbc eval")
    assert (found["mbc"], found["seed"], found["device"], found["gpu"]) == (mbc_engine.__version__, 7, "cpu", None)
    assert (
        found["packages"]["torch"] == torch.__version__.partition("+")[0]
        or found["packages"]["torch"] == torch.__version__
    )
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert found["cpu"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(found["date"])).total_seconds() < 60
    assert found["command"] == "mbc eval"


def test_the_gpu_that_is_asked_for_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"name of {device}")
    assert environment(0, "cuda:1")["gpu"] == "name of cuda:1"


def test_neither_it_nor_the_protocols_import_torch():
    code = (
        "import sys, mbc_engine.evaluation.protocols\n"
        "from mbc_engine.experiments.running import environment\n"
        "assert environment(0)['threads'] is None\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_the_commit_is_the_one_checked_out(tmp_path):
    from mbc_engine.experiments.running import _commit

    assert _commit(tmp_path) is None
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], check=True)
    assert _commit(tmp_path) is None
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert _commit(tmp_path) == head
