"""Pull and push: a whole model that was checked, or nothing."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import errors

from mbc_engine import sharing
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model import load_model
from mbc_engine.names import find_model
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.sharing import MARK, check, pull, push
from tests.sharing.fake_hub import SHA, http_error, http_library

TEXTS = ["Ada moved to Bergen in the spring.", "The river rose."]


def test_a_pulled_model_answers_like_the_pushed_one(saved, shared, models, monkeypatch, files):
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: models.parent)
    pulled = pull("ada/tiny", models)
    folder = models / "ada" / "tiny"
    assert (find_model("ada/tiny"), pulled.revision) == (folder, SHA)
    original, loaded = load_model(saved), load_model("ada/tiny")
    codes = original.memorise(TEXTS)
    assert (loaded.memorise(TEXTS) == codes).all()
    one, other = (
        model.answer_from(["Where did Ada move?"], CodeMemory(codes, model.codebook)) for model in (original, loaded)
    )
    assert one == other
    came = files(folder)
    assert pulled.size == sum(map(len, came.values()))
    assert came.pop("README.md")
    assert came == files(saved)
    assert list(models.iterdir()) == [folder.parent]


def test_only_model_files_are_downloaded(shared, models, files):
    for name in ("pytorch_model.bin", "evil.py", "adapter/more.pkl", ".bashrc"):
        (shared.folder / "ada" / "tiny" / name).write_bytes(b"evil")
    (shared.folder / "ada" / "tiny" / "README.md").unlink()  # a card is not needed
    pull("ada/tiny", models)
    assert len(shared.fetched) == len(files(models)) == 4


def test_pull_replaces_only_with_force(shared, models, files):
    pull("ada/tiny", models)
    (models / "ada" / "tiny" / "mine").touch()
    before = files(models)
    with pytest.raises(ConfigError, match="A model ada/tiny already exists"):
        pull("ada/tiny", models)
    assert files(models) == before
    pull("ada/tiny", models, replaces=True)
    assert "ada/tiny/mine" not in files(models)
    assert [entry.name for entry in models.iterdir()] == ["ada"]


def test_an_interrupted_replacement_restores_the_old_model(shared, models, files, monkeypatch):
    pull("ada/tiny", models)
    before, rename = files(models), Path.rename

    def interrupted(path, target):
        if path.name == "model":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pull("ada/tiny", models, replaces=True)
    assert files(models) == before


def test_a_link_is_replaced_not_its_target(shared, models, files, working_folder):
    pull("ada/tiny", models)
    (models / "ada" / "tiny").rename(working_folder / "mine")
    (models / "ada" / "tiny").symlink_to(working_folder / "mine")
    before = files(working_folder / "mine")
    pull("ada/tiny", models, replaces=True)
    assert not (models / "ada" / "tiny").is_symlink()
    assert files(working_folder / "mine") == before


def test_name_and_revision_can_be_chosen(shared, models):
    pull("ada/tiny", models, name="eve/mine", revision="v2")
    assert (models / "eve" / "mine" / "config.toml").is_file()
    with pytest.raises(ModelError, match="has no revision 'v3'"):
        pull("ada/tiny", models, name="mine", revision="v3")


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b/c", ".x", "a/.incoming", "x\n", "mini"])
def test_names_cannot_escape_the_models_folder(shared, models, name):
    with pytest.raises(ConfigError):
        pull("ada/tiny", models, name=name)
    assert not models.exists()


@pytest.mark.parametrize(
    "repository", ["../x", "ada", "/etc/passwd", "ada/../../x", "ada/tiny/x", "ada/.tiny", "", "/"]
)
def test_repository_names_are_checked(saved, hub, models, files, repository):
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        pull(repository, models)
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        push(saved, repository)
    assert files(hub.folder) == {}


@pytest.mark.parametrize("answer", [{"sha": "../../evil"}, {"sha": None}, {"siblings": 5}])
def test_a_hub_cannot_name_places(shared, models, working_folder, monkeypatch, answer):
    info = SimpleNamespace(**{"sha": SHA, "siblings": []} | answer)
    monkeypatch.setattr(shared, "model_info", lambda *_, **__: info)
    with pytest.raises(ModelError, match="makes no sense"):
        pull("ada/tiny", models)
    assert not models.exists()


def test_a_config_that_would_take_all_memory_is_not_read(shared, models):
    for name in ("adapter/adapter_config.json", "config.toml"):
        os.truncate(shared.folder / "ada/tiny" / name, 1 << 40)
        with pytest.raises(ModelError, match="too large"):
            check(shared.folder / "ada/tiny", "It", "")


@pytest.mark.parametrize("is_link", [True, False])
def test_other_files_are_never_replaced(shared, models, working_folder, is_link):
    place = models / "ada" / "tiny"
    place.parent.mkdir(parents=True)
    if is_link:
        place.symlink_to(working_folder / "unmounted")
    else:
        place.mkdir()
    with pytest.raises(ConfigError, match="is not a model"):
        pull("ada/tiny", models, replaces=True)
    assert place.is_symlink() == is_link


def test_an_interrupted_pull_is_resumed(shared, models, files, monkeypatch):
    def interrupted(repository, *, local_dir, **_):
        (local_dir / "adapter").mkdir(parents=True)
        (local_dir / "config.toml").write_text("[mod")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sharing, "snapshot_download", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull("ada/tiny", models)
    assert list(files(models)) == [".ada--tiny/model/config.toml"]
    pull("ada/tiny", models)
    assert files(models / "ada" / "tiny") == files(shared.folder / "ada" / "tiny")
    assert [entry.name for entry in models.iterdir()] == ["ada"]


@pytest.mark.parametrize("file", ["config.toml", "model.safetensors"])
@pytest.mark.parametrize("replaces", [True, False])
def test_a_damaged_model_is_not_saved(shared, models, files, file, replaces):
    if replaces:
        pull("ada/tiny", models)
    before = files(models)
    (shared.folder / "ada" / "tiny" / file).write_bytes(b"\x80\x04evil")
    with pytest.raises(ModelError, match="ada/tiny cannot be used") as caught:
        pull("ada/tiny", models, replaces=replaces)
    assert "Report it to its owner" in (caught.value.hint or "")
    assert files(models) == before


def test_a_repository_without_a_model_is_refused(shared, models):
    (shared.folder / "ada" / "tiny" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"is not an mbc model: it has no model\.safetensors"):
        pull("ada/tiny", models)
    assert shared.fetched == []


def test_an_unwritable_folder_is_an_error(shared, models):
    models.write_text("a file")
    with pytest.raises(ModelError, match=r"models.*: (Not a directory|File exists)"):
        pull("ada/tiny", models)


ABSENT = "There is no ada/tiny on the hub, or you have no access to it."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE is set, so the hub is not contacted."),
        (http_error(errors.GatedRepoError, 403), ABSENT),
        (http_error(errors.RepositoryNotFoundError, 404), ABSENT),
        (http_error(errors.HfHubHTTPError, 403, "Forbidden"), "The hub refused the request: Forbidden"),
        (http_error(errors.HfHubHTTPError, 500, "Out of order\nat all"), "The hub refused the request: Out of order"),
        (http_library.ConnectError("no route"), "The hub cannot be reached."),
        (errors.LocalEntryNotFoundError("not in the cache"), "The hub cannot be reached."),
        (OSError(28, "No space left on device"), "ada/tiny: No space left on device."),
    ],
)
def test_errors_of_the_client_are_explained(shared, models, error, message):
    shared.error = error
    with pytest.raises(ModelError) as caught:
        pull("ada/tiny", models)
    assert caught.value.message.startswith(message)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert not models.exists()


def test_push_adds_a_card_and_changes_nothing_locally(saved, hub, files):
    (saved / "optimizer.pt").write_bytes(b"evil")
    before = files(saved)
    pushed = push(saved, "ada/tiny")
    assert files(saved) == before
    pushed_files = files(hub.folder / "ada" / "tiny")
    assert (pushed.card, pushed.revision, pushed.size) == ("written", SHA, sum(map(len, pushed_files.values())))
    assert pushed_files.pop("README.md").decode().count(MARK) == 1
    assert pushed_files == {name: content for name, content in before.items() if name != "optimizer.pt"}


def test_push_replaces_only_with_force(saved, shared, files):
    before = files(shared.folder)
    with pytest.raises(ConfigError, match="already"):
        push(saved, "ada/tiny")
    assert files(shared.folder) == before
    assert push(saved, "ada/tiny", replaces=True, licence="mit").card == "written"
    assert "license: mit" in shared.card()


def test_handwritten_cards_are_kept(saved, shared):
    (shared.folder / "ada" / "tiny" / "README.md").write_text("Theirs.")
    assert push(saved, "ada/tiny", replaces=True).card == "kept"
    assert shared.card() == "Theirs."
    (saved / "README.md").write_text("Mine.")
    assert push(saved, "ada/tiny", replaces=True).card == "beside"
    assert shared.card() == "Mine."
    with pytest.raises(ConfigError, match="written by hand"):
        push(saved, "ada/tiny", replaces=True, licence="mit")


def test_unusable_models_are_not_pushed(saved, hub, files):
    config = (saved / "config.toml").read_text()
    (saved / "config.toml").write_text(config.replace('"tiny/gpt2"', f'"{saved}"'))
    with pytest.raises(ModelError, match="a path on one machine") as caught:
        push(saved, "ada/tiny")
    assert caught.value.hint == "Fix it before sharing; others could not use it either."
    assert files(hub.folder) == {}


def test_a_push_needs_a_login(saved, hub, files, monkeypatch):
    monkeypatch.setattr(sharing, "get_token", lambda: None)
    with pytest.raises(ModelError, match="not logged in"):
        push(saved, "ada/tiny")
    assert files(hub.folder) == {}


def test_private_models_never_become_public(saved, shared):
    push(saved, "ada/secret", is_private=True)
    assert shared.private == {"ada/secret"}
    with pytest.raises(ModelError, match="exists already and is public"):
        push(saved, "ada/tiny", is_private=True, replaces=True)


def test_a_pulled_model_keeps_its_card(shared, models, files):
    pull("ada/tiny", models)
    push(models / "ada" / "tiny", "eve/tiny")
    assert files(shared.folder / "eve" / "tiny") == files(shared.folder / "ada" / "tiny")
