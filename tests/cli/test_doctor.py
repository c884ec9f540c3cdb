import io
import json
import shutil
import sys
import threading
from email.message import Message
from urllib.error import HTTPError, URLError

import pytest

from mbc_cli import engine
from mbc_cli.commands import doctor as doctor_command
from mbc_engine.lm.embedded import LANGUAGE_MODEL
from mbc_engine.lm.packaged import INSTALL_MPNET, MPNET, minilm_folder
from tests.needs import PATIENCE
from tests.newswire import TWO


@pytest.fixture
def bare(home, monkeypatch):
    """A machine without the packages that carry pretrained models."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def doctor(mbc, *arguments):
    result = mbc("doctor", "--offline", "--json", *arguments)
    return result.exit_code, json.loads(result.stdout)


def works(report):
    return {ability["name"]: ability["works"] for ability in report["abilities"]}


def test_everything_is_shown_and_fits_a_terminal(mbc, home):
    result = mbc("doctor", "--offline")
    assert result.exit_code == 0
    assert result.stderr == ""
    titles = ["Installed", "Hardware", "Pretrained models", "Files", "What works here"]
    assert [line for line in result.stdout.splitlines() if line[0] != " "] == titles
    before, _, rest = result.stdout.partition("\nFiles\n")
    after = rest[rest.index("What works here") :]  # the paths in between may be longer
    assert all(len(line) <= 80 for line in (before + after).splitlines())
    assert "encoder bundle  installed, checksums match" in result.stdout


def test_json_has_the_same(mbc, home):
    code, report = doctor(mbc, "--bank", "there.mbc")
    assert code == 0
    assert {"mbc", "python", "torch", "transformers", "peft", "bitsandbytes"} <= set(report["versions"])
    assert report["devices"]["cores"] >= 1
    assert report["hub"]["offline"] is True
    assert report["hub"]["reachable"] is None
    assert report["encoder"]["is_official"] is True
    assert report["places"]["bank"]["path"] == str(home / "there.mbc")
    assert report["places"]["bank"]["exists"] is False
    assert report["places"]["bank"]["free"] > 0
    assert report["config_error"] is None
    assert list(works(report)) == ["ingest", "ask", "train", "GPU", "4-bit", "tui", "web"]
    assert works(report)["ingest"] is works(report)["ask"] is True


def test_a_place_that_may_not_be_read_counts_as_missing(mbc, monkeypatch):
    def denied(path, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", denied)
    code, report = doctor(mbc, "--bank", "locked/there.mbc")
    assert (code, report["places"]["bank"]["exists"]) == (0, False)


def test_a_broken_library_is_a_finding(mbc, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.utils.logging", None)
    assert doctor(mbc)[0] == 0


def test_without_an_encoder_nothing_can_be_memorised(mbc, bare):
    code, report = doctor(mbc)
    assert code == 4
    assert report["encoder"]["path"] is None
    assert not works(report)["ingest"]
    (detail,) = {ability["detail"] for ability in report["abilities"] if ability["name"] in ("ingest", "ask", "train")}
    assert "-e '.[embedded]'" in detail
    assert "not installed: pip install" in mbc("doctor", "--offline").stdout


def test_the_language_model_is_shown_with_how_to_get_it(mbc, bare):
    found = doctor(mbc)[1]["language_model"]
    assert (found["name"], found["path"], found["is_unpacked"]) == (LANGUAGE_MODEL, None, False)
    assert f"language model  not installed: {found['install']}" in mbc("doctor", "--offline").stdout


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_large_reader_is_shown_with_how_to_get_it(mbc, monkeypatch, is_installed):
    monkeypatch.setattr("mbc_engine.lm.packaged.is_mpnet_installed", lambda: is_installed)
    found = doctor(mbc)[1]["reader_encoder"]
    assert (found["name"], found["is_installed"], found["install"]) == (MPNET, is_installed, INSTALL_MPNET)
    assert (INSTALL_MPNET in " ".join(mbc("doctor").stdout.split())) != is_installed


def test_a_language_model_that_is_installed_is_found_but_not_unpacked(mbc, home, monkeypatch):
    monkeypatch.setattr("mbc_engine.lm.embedded.locate_language_model", lambda: home / "model.gguf")
    assert doctor(mbc)[1]["language_model"]["path"] == str(home / "model.gguf")
    assert "language model  installed, unpacked on first use" in mbc("doctor", "--offline").stdout


def test_a_damaged_bundle_is_found(mbc, home, monkeypatch):
    broken, folder = home / "bundle", minilm_folder()
    shutil.copytree(folder.parent, broken)
    with (broken / folder.name / "model.safetensors").open("r+b") as file:
        file.write(b"x")
    spec = type("Spec", (), {"submodule_search_locations": [str(broken)]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    code, report = doctor(mbc)
    assert (code, report["encoder"]["is_official"]) == (4, False)
    assert "is not the official file" in report["abilities"][0]["detail"]


def test_a_missing_model_is_a_finding(mbc):
    code, report = doctor(mbc, "--model", "no-such-model")
    assert code == 4
    assert "There is no model 'no-such-model'." in report["abilities"][0]["detail"]


def test_a_config_that_is_not_text_is_a_finding(mbc, home):
    (home / "model").mkdir()
    (home / "model" / "config.toml").write_bytes(b"\xff\xfe")
    (home / "model" / "model.safetensors").touch()
    code, report = doctor(mbc, "--model", home / "model")
    assert (code, "cannot be read" in report["abilities"][0]["detail"]) == (4, True)
    for command in (["ask", "Who?"], ["calibrate", "--data", TWO]):
        assert mbc(*command, "--model", home / "model").exit_code in (4, 5)


def test_torch_that_cannot_be_imported_is_a_finding(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    found = doctor_command.check(home / "b.mbc", home / "runs", "mini", asks_hub=False)
    assert found["devices"]["error"]
    assert not works(found)["ask"]
    assert "torch cannot be used" in found["abilities"][0]["detail"]


def test_a_broken_config_is_reported_and_stops_nothing(mbc, home, monkeypatch):
    (home / "c.toml").write_text("bogus = 1")
    monkeypatch.setenv("MBC_CONFIG", str(home / "c.toml"))
    result = mbc("doctor", "--offline")
    assert result.exit_code == 0
    assert "No command has an option for the key bogus." in result.stdout


@pytest.mark.parametrize(
    ("asks", "is_offline", "reachable"), [(True, False, False), (True, True, None), (False, False, None)]
)
def test_the_hub_is_asked_unless_it_must_not_be(home, monkeypatch, asks, is_offline, reachable):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", is_offline)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    hub = doctor_command.check(home / "b.mbc", home / "runs", "mini", asks_hub=asks)["hub"]
    assert (hub["offline"], hub["reachable"]) == (is_offline, reachable)


@pytest.mark.parametrize(
    ("answer", "is_reachable"), [(None, True), (HTTPError("", 404, "", Message(), None), True), (URLError("no"), False)]
)
def test_a_hub_that_gives_any_answer_is_reachable(monkeypatch, answer, is_reachable):
    def urlopen(request, timeout):
        if answer:
            raise answer
        return io.BytesIO()

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    assert engine.hub_is_reachable() is is_reachable


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: ended.wait(PATIENCE) and io.BytesIO())
    monkeypatch.setattr(engine, "_PATIENCE", 0.01)
    assert engine.hub_is_reachable() is False
    ended.set()


def test_a_gpu_that_torch_cannot_use_does_not_work():
    devices = {"error": "CUDA error", "cuda": [{"name": "A100"}], "mps": False}
    works = {name: does for name, does, _ in doctor_command._abilities(devices, {"reachable": False}, "mini")}
    assert works["GPU"] is False
