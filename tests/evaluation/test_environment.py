"""What ran an evaluation."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

import mbc_engine
from mbc_engine.evaluation.folder import commit_of, environment

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_it_tells_versions_machine_seed_and_date():
    here = environment(7, command="mbc eval")
    assert (here.mbc, here.seed, here.device, here.gpu) == (mbc_engine.__version__, 7, "cpu", None)
    assert here.packages["torch"] == torch.__version__.partition("+")[0] or here.packages["torch"] == torch.__version__
    assert here.threads == torch.get_num_threads()
    assert here.cores >= 1
    assert here.cpu
    assert abs(datetime.now(UTC) - datetime.fromisoformat(here.date)).total_seconds() < 60
    assert here.command == "mbc eval"


def test_the_gpu_that_is_asked_for_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"name of {device}")
    assert environment(0, "cuda:1").gpu == "name of cuda:1"


def test_neither_it_nor_the_folder_imports_torch():
    code = (
        "import sys, mbc_engine.evaluation.folder, mbc_engine.evaluation.protocols, mbc_engine.evaluation.protocols\n"
        "from mbc_engine.evaluation.folder import environment\n"
        "assert environment(0).threads is None\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


class TestCommit:
    @pytest.fixture
    def git(self, tmp_path: Path) -> Path:
        git = tmp_path / "tree" / ".git"
        (git / "refs" / "heads").mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        return git

    def test_of_a_branch(self, git):
        (git / "refs" / "heads" / "main").write_text(f"{COMMIT}\n")
        assert commit_of(git.parent) == COMMIT

    def test_of_a_packed_branch(self, git):
        other = COMMIT[::-1]
        (git / "packed-refs").write_text(
            f"# pack-refs\n{other} refs/heads/x/main\n{COMMIT} refs/heads/main\n^{other}\n"
        )
        assert commit_of(git.parent) == COMMIT

    def test_of_no_branch(self, git):
        (git / "HEAD").write_text(f"{COMMIT}\n")
        assert commit_of(git.parent) == COMMIT

    def test_of_a_further_work_tree(self, git, tmp_path):
        (git / "refs" / "heads" / "side").write_text(f"{COMMIT}\n")
        own = git / "worktrees" / "side"
        own.mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/side\n")
        (own / "commondir").write_text("../..\n")
        (tmp_path / "side").mkdir()
        (tmp_path / "side" / ".git").write_text(f"gitdir: {own}\n")
        assert commit_of(tmp_path / "side") == COMMIT

    def test_before_the_first_commit_there_is_none(self, git):
        assert commit_of(git.parent) is None

    def test_elsewhere_there_is_none(self, git):
        assert commit_of(git.parent.parent) is None


def test_everything_in_it_can_be_written():
    here = asdict(environment(0, command="mbc eval \udcff"))
    assert json.loads(json.dumps(here, ensure_ascii=False).encode()) == here
