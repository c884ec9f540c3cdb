import json
import shutil
import sys
import threading

import pytest

from mbc_cli.commands import doctor as checkup
from mbc_cli.commands.models import share as hub
from mbc_engine.lm.encoders import BUNDLES


@pytest.fixture
def bare(monkeypatch):
    """A machine without the encoder's bundle."""
    monkeypatch.setattr(checkup.importlib.util, "find_spec", lambda name: None)


def doctor(mbc, *arguments):
    result = mbc("doctor", "--offline", "--json", *arguments)
    return result.exit_code, json.loads(result.stdout)


def works(told):
    return {ability["name"]: ability["works"] for ability in told["abilities"]}


def test_all_is_told_and_fits_a_terminal(mbc, home):
    result = mbc("doctor", "--offline")
    assert result.exit_code == 0
    assert result.stderr == ""
    titles = ["Installed", "Hardware", "Pretrained models", "Files", "What works here"]
    assert [line for line in result.stdout.splitlines() if line[0] != " "] == titles
    before, _, rest = result.stdout.partition("\nFiles\n")
    after = rest[rest.index("What works here") :]  # paths between them are as long as they are
    assert all(len(line) <= 80 for line in (before + after).splitlines())
    assert "encoder bundle  installed, checksums match" in result.stdout


def test_json_has_the_same(mbc, home):
    code, told = doctor(mbc, "--bank", "there.mbc")
    assert code == 0
    assert {"mbc", "python", "torch", "transformers", "peft", "bitsandbytes"} <= set(told["versions"])
    assert told["devices"]["cores"] >= 1
    assert told["hub"]["offline"] is True
    assert told["hub"]["reachable"] is None
    assert told["encoder"]["is_official"] is True
    assert told["places"]["bank"]["path"] == str(home / "there.mbc")
    assert told["places"]["bank"]["exists"] is False
    assert told["places"]["bank"]["free"] > 0
    assert told["config_error"] is None
    assert list(works(told)) == ["ingest", "ask", "train", "GPU", "4-bit", "tui", "web"]
    assert works(told)["ingest"] is works(told)["ask"] is True


def test_what_cannot_be_looked_into_is_not_there(mbc, monkeypatch):
    def denied(path, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", denied)
    code, told = doctor(mbc, "--bank", "locked/there.mbc")
    assert (code, told["places"]["bank"]["exists"]) == (0, False)


def test_a_broken_library_is_a_finding(mbc, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.utils.logging", None)
    assert doctor(mbc)[0] == 0


def test_without_an_encoder_nothing_can_be_memorised(mbc, bare):
    code, told = doctor(mbc)
    assert code == 4
    assert told["encoder"]["path"] is None
    assert not works(told)["ingest"]
    (way,) = {ability["told"] for ability in told["abilities"] if ability["name"] in ("ingest", "ask", "train")}
    assert "-e '.[embedded]'" in way
    assert "not installed: pip install" in mbc("doctor", "--offline").stdout


def test_a_damaged_bundle_is_found(mbc, home, monkeypatch):
    (bundle,) = BUNDLES.values()
    broken = home / "bundle"
    original = checkup.importlib.util.find_spec(bundle.package).submodule_search_locations[0]
    shutil.copytree(original, broken)
    with (broken / bundle.folder / "model.safetensors").open("r+b") as file:
        file.write(b"x")
    spec = type("Spec", (), {"submodule_search_locations": [str(broken)]})
    monkeypatch.setattr(checkup.importlib.util, "find_spec", lambda name: spec)
    code, told = doctor(mbc)
    assert (code, told["encoder"]["is_official"]) == (4, False)
    assert "is not the official file" in told["abilities"][0]["told"]


def test_a_missing_model_is_a_finding(mbc):
    code, told = doctor(mbc, "--model", "no-such-model")
    assert code == 4
    assert "There is no model 'no-such-model'." in told["abilities"][0]["told"]


def test_torch_that_cannot_be_imported_is_a_finding(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    found = checkup.check(home / "b.mbc", home / "runs", "mini", may_ask_hub=False)
    assert found.devices.error
    assert not found.is_fit
    assert "torch cannot be used" in found.abilities[0].told


def test_a_broken_config_is_told_and_hinders_nothing(mbc, home, monkeypatch):
    (home / "c.toml").write_text("bogus = 1")
    monkeypatch.setenv("MBC_CONFIG", str(home / "c.toml"))
    result = mbc("doctor", "--offline")
    assert result.exit_code == 0
    assert "No command has an option for the key bogus." in result.stdout


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_hub_is_asked_unless_it_must_not_be(home, monkeypatch, is_reached):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "answers", lambda address: is_reached)
    asked = {
        may: checkup.check(home / "b.mbc", home / "runs", "mini", may_ask_hub=may).hub.reachable
        for may in (True, False)
    }
    assert asked == {True: is_reached, False: None}


def test_a_hub_that_does_not_answer_is_not_waited_for(home, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "PATIENCE", 0.01)
    monkeypatch.setattr(hub, "answers", lambda address: ended.wait(60))
    found = checkup.check(home / "b.mbc", home / "runs", "mini", may_ask_hub=True)
    ended.set()
    assert found.hub.reachable is False


def test_where_nothing_listens_nothing_answers():
    assert not hub.answers("http://127.0.0.1:1")
    assert not hub.answers("no address")
