"""`mbc doctor`: what it finds on this machine, and its exit code when the model cannot be used."""

import json
import sys
from email.message import Message
from unittest.mock import Mock
from urllib.error import HTTPError, URLError

import pytest

from mbc_cli import loading
from mbc_cli.commands import doctor as doctor_command
from mbc_engine.lm import packaged
from mbc_engine.lm.packaged import LANGUAGE_MODEL


@pytest.fixture(autouse=True)
def sound_caches(monkeypatch):
    """Leaves out what reads hundreds of megabytes: are the unpacked models as they were written?"""
    monkeypatch.setattr(packaged, "damaged_caches", list)


def doctor(mbc, *arguments, code=0):
    return json.loads(mbc("doctor", "--offline", "--json", *arguments, code=code).stdout)


def works(report):
    return {ability["name"]: ability["works"] for ability in report["abilities"]}


def test_json(mbc, home):
    report = doctor(mbc, "--bank", "there.mbc")
    assert {"mbc", "python", "torch", "transformers", "peft", "bitsandbytes"} <= set(report["versions"])
    assert report["devices"]["cores"] >= 1
    assert (report["hub"]["offline"], report["hub"]["reachable"]) == (True, None)
    assert report["encoder"]["is_official"] is True
    place = report["places"]["bank"]
    assert (place["path"], place["exists"], place["free"] > 0) == (str(home / "there.mbc"), False, True)
    assert report["config_error"] is None
    assert list(works(report)) == ["ingest", "ask", "train", "GPU", "8 bits", "llm", "4-bit", "tui", "web"]
    assert works(report)["ingest"] is works(report)["ask"] is True


def test_missing_pretrained_models(mbc, home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = doctor(mbc, code=4)
    assert (report["encoder"]["path"], works(report)["ingest"]) == (None, False)
    assert "-e '.[embedded]'" in report["abilities"][0]["detail"]
    model = report["language_model"]
    assert (model["name"], model["path"], model["is_unpacked"]) == (LANGUAGE_MODEL, None, False)
    assert "encoder bundle  not installed: pip install" in mbc("doctor", "--offline", code=4).stdout


def test_a_broken_torch_is_a_finding(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    report = doctor_command.check(home / "b.mbc", home / "runs", "mini", asks_hub=False)
    assert report["devices"]["error"]
    assert (works(report)["train"], works(report)["GPU"]) == (False, False)
    assert "torch cannot be used" in next(one["detail"] for one in report["abilities"] if one["name"] == "train")


@pytest.mark.parametrize(
    ("precision", "has", "packages", "expected"),
    [
        ("auto", True, ("onnx", "onnxruntime"), (True, "faster")),
        ("auto", True, ("onnx",), (False, "pip install onnxruntime")),
        ("auto", False, ("onnx", "onnxruntime"), (False, "float32")),
        ("float32", True, ("onnx", "onnxruntime"), (False, "MBC_PRECISION=float32")),
        ("half", True, ("onnx", "onnxruntime"), (False, "MBC_PRECISION=half is not a precision")),
    ],
)
def test_precision(mbc, monkeypatch, precision, has, packages, expected):
    monkeypatch.setenv("MBC_PRECISION", precision)
    monkeypatch.setattr("mbc_engine.machine._has_integer_products", lambda: has)
    monkeypatch.setattr(doctor_command, "installed_version", lambda name: "1" if name in packages else None)
    ability = next(each for each in doctor(mbc)["abilities"] if each["name"] == "8 bits")
    assert ability["works"] is expected[0]
    assert expected[1] in ability["detail"]


def test_closed_folder_and_broken_config(mbc, home, monkeypatch):
    (home / "c.toml").write_text("bogus = 1")
    monkeypatch.setenv("MBC_CONFIG", str(home / "c.toml"))
    monkeypatch.setattr("pathlib.Path.exists", Mock(side_effect=PermissionError(13, "Permission denied")))
    shown = mbc("doctor", "--offline", "--bank", "locked/there.mbc").stdout
    assert "No command has an option for the key bogus." in shown


def test_any_response_counts_as_reachable(monkeypatch):
    errors = [HTTPError("", 404, "", Message(), None), URLError("no")]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.urlopen", Mock(side_effect=errors))
    assert [loading.hub_is_reachable() for _ in range(2)] == [True, False]
