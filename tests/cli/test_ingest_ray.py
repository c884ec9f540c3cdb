"""`mbc ingest --engine ray`: what is refused before anything starts, and an ingest in a process of its own."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-", "--engine", "ray"], "--engine ray cannot be combined with stdin"),
        (["notes", "--engine", "ray", "--watch"], "--engine ray cannot be combined with --watch"),
        (["notes", "--engine", "ray", "--actor-cpus", "0"], "a CPU or a GPU"),
        (["notes", "--engine", "dask"], "--engine"),
        (["notes", "--engine", "ray", "--actors", "0"], "--actors"),
        (["notes", "--actors", "2"], "--actors needs --engine ray"),
        (["notes", "--address", "auto"], "--address needs --engine ray"),
    ],
    ids=lambda options: " ".join(options) if isinstance(options, list) else "",
)
def test_wrong_options(mbc, notes, options, said):
    result = mbc("ingest", *options, "--model", "no-such-model")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_missing_extra(mbc, notes, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else found(name, *rest))
    result = mbc("ingest", notes, "--engine", "ray", "--model", "no-such-model")
    assert result.exit_code == 2
    assert "`--engine ray` needs packages that are not installed: ray" in result.stderr
    assert "-e '.[ray]'" in result.stderr


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_same_summary_as_a_local_ingest(ingest, model, notes, home):
    """In a process of its own, as in real use: Ray reads parts of the environment when first imported."""
    before = {path.name for path in home.parent.iterdir()}
    arguments = ["--engine", "ray", "--actors", "1", "--bank", "ray.mbc", "--model", model, "--json"]
    command = [sys.executable, "-m", "mbc_cli", "ingest", str(notes), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    # Lines of progress come if it takes long.
    said = [line for line in done.stderr.splitlines() if not line.startswith("Memorising: ")]
    assert said == ["Memorising 2 files, 88 B."]
    distributed = json.loads(done.stdout)
    serial = json.loads(ingest(notes, "--bank", "serial.mbc", "--json").stdout)
    for summary in (serial, distributed):
        for key in ("seconds", "encoding"):
            del summary[key]
        del summary["bank"]["path"]
    assert distributed == serial
    assert {path.name for path in home.parent.iterdir()} == before
