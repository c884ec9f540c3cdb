"""A pull: whole, checked and in its place, or as if there had been none."""

import shutil

import pytest

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model_folder import find_model
from mbc_engine.paper.checkpoint import load_model
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.runs.event_log import work_lock
from mbc_engine.sharing.hub import FilesMoved, FolderHub, HubFile, Listing
from mbc_engine.sharing.pulling import pull
from mbc_engine.sharing.pushing import push

TEXTS = ["Ada moved to Bergen in the spring.", "The river rose."]


def ignore(event):
    """Show nothing."""


class Interrupted(FolderHub):
    """A hub whose user presses Ctrl-C in the middle of a file."""

    def __init__(self, hub, at):
        super().__init__(hub.folder)
        self.at, self.fetched = at, []

    def fetch(self, listing, file, folder, moved):
        self.fetched.append(file.name)
        if file.name == self.at:
            (folder / file.name).write_bytes((self.folder / listing.repository / file.name).read_bytes()[:100])
            raise KeyboardInterrupt
        super().fetch(listing, file, folder, moved)


def test_what_was_pushed_answers_the_same_when_pulled(saved, shared, models, monkeypatch, files):
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: models.parent)
    pulled = pull(shared, "ada/tiny", models, show=ignore)
    assert (pulled.name, pulled.folder) == ("ada/tiny", models / "ada" / "tiny")
    assert find_model("ada/tiny") == pulled.folder
    here, there = load_model(saved), load_model("ada/tiny")
    codes = here.memorise(TEXTS)
    assert (there.memorise(TEXTS) == codes).all()
    one, other = (model.answer(["Where did Ada move?"], CodeMemory(codes, model.codebook)) for model in (here, there))
    assert one == other
    came = files(pulled.folder)
    assert came.pop("README.md")
    assert came == files(saved)
    assert not (models / ".incoming").exists()


def test_nothing_but_the_files_of_a_model_comes(shared, models, files):
    home = shared.folder / "ada" / "tiny"
    for name in ("pytorch_model.bin", "evil.py", "adapter/more.pkl", ".bashrc"):
        (home / name).write_bytes(b"evil")
    pulled = pull(shared, "ada/tiny", models, show=ignore)
    assert "evil" not in "".join(files(pulled.folder))
    assert len(files(pulled.folder)) == 5


def test_progress_counts_every_byte_once(shared, models):
    events: list[FilesMoved] = []
    pulled = pull(shared, "ada/tiny", models, show=events.append)
    done = [event.done for event in events]
    assert done == sorted(done)
    assert (done[-1], events[-1].total) == (pulled.listing.size, pulled.listing.size)


def test_a_card_need_not_be_there(shared, models, files):
    (shared.folder / "ada" / "tiny" / "README.md").unlink()
    assert "README.md" not in files(pull(shared, "ada/tiny", models, show=ignore).folder)


def test_a_model_is_replaced_only_when_asked(shared, models, files):
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    (folder / "mine").touch()
    before = files(folder)
    with pytest.raises(ConfigError, match="There is a model ada/tiny already"):
        pull(shared, "ada/tiny", models, show=ignore)
    assert files(folder) == before
    pull(shared, "ada/tiny", models, replaces=True, show=ignore)
    assert "mine" not in files(folder)
    assert sorted(entry.name for entry in models.iterdir()) == ["ada"]


def test_a_model_may_be_called_otherwise(shared, models):
    assert pull(shared, "ada/tiny", models, name="mine", show=ignore).folder == models / "mine"
    assert pull(shared, "ada/tiny", models, name="eve/mine", show=ignore).folder == models / "eve" / "mine"


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b/c", ".x", "a/.incoming", "x\n", "mini"])
def test_a_name_leads_nowhere_else(shared, models, name):
    with pytest.raises(ConfigError):
        pull(shared, "ada/tiny", models, name=name, show=ignore)
    assert not models.exists()


@pytest.mark.parametrize("repository", ["../x", "ada", "/etc/passwd", "ada/../../x", "ada/tiny/x"])
def test_so_does_a_repository(shared, models, repository):
    with pytest.raises(ConfigError):
        pull(shared, repository, models, show=ignore)


def test_an_owner_cannot_be_a_model(shared, models):
    pull(shared, "ada/tiny", models, name="ada", show=ignore)
    with pytest.raises(ConfigError, match="is a model itself"):
        pull(shared, "ada/tiny", models, show=ignore)


def test_what_is_no_model_is_never_replaced(shared, models):
    (models / "ada" / "tiny").mkdir(parents=True)
    (models / "ada" / "tiny" / "novel.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no model"):
        pull(shared, "ada/tiny", models, replaces=True, show=ignore)
    assert (models / "ada" / "tiny" / "novel.txt").read_text() == "mine"


@pytest.mark.parametrize("at", ["config.toml", "model.safetensors", "adapter/adapter_model.safetensors", "README.md"])
def test_an_interrupted_pull_leaves_nothing_and_goes_on(shared, models, files, at):
    (models).mkdir()
    hub = Interrupted(shared, at)
    if at == "config.toml":
        (models / ".incoming" / "ada--tiny" / "parts").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        pull(hub, "ada/tiny", models, show=ignore)
    with pytest.raises(ModelError):
        find_model(str(models / "ada" / "tiny"))
    assert [entry.name for entry in models.iterdir()] == [".incoming"]
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    assert files(folder) == files(shared.folder / "ada" / "tiny")
    assert [entry.name for entry in models.iterdir()] == ["ada"]


def test_a_model_that_is_replaced_stays_when_the_pull_is_interrupted(shared, models, files):
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    before = files(folder)
    with pytest.raises(KeyboardInterrupt):
        pull(Interrupted(shared, "model.safetensors"), "ada/tiny", models, replaces=True, show=ignore)
    assert files(folder) == before


def test_of_a_link_to_a_model_only_the_link_is_replaced(shared, models, files, here):
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    folder.rename(here / "mine")
    folder.symlink_to(here / "mine")
    before = files(here / "mine")
    for _ in range(2):
        assert not pull(shared, "ada/tiny", models, replaces=True, show=ignore).folder.is_symlink()
    assert files(here / "mine") == before
    assert [entry.name for entry in models.iterdir()] == ["ada"]


def test_a_link_to_a_disk_that_is_not_there_is_not_replaced(shared, models, here):
    (models / "ada").mkdir(parents=True)
    (models / "ada" / "tiny").symlink_to(here / "unmounted")
    with pytest.raises(ConfigError, match="is there already, and no model"):
        pull(shared, "ada/tiny", models, replaces=True, show=ignore)
    assert (models / "ada" / "tiny").is_symlink()


def test_a_model_moved_aside_by_a_pull_that_was_killed_comes_back(shared, models, files):
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    before = files(folder)
    staging = models / ".incoming" / "ada--tiny"
    staging.mkdir(parents=True)
    folder.rename(staging / "aside")
    with pytest.raises(ConfigError, match="already"):
        pull(shared, "ada/tiny", models, show=ignore)
    assert files(folder) == before


def test_nothing_is_left_in_a_model_of_a_pull_that_was_killed(shared, models, files):
    whole = models / ".incoming" / "ada--tiny" / "whole"
    whole.mkdir(parents=True)
    (whole / "old").touch()
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    assert files(folder) == files(shared.folder / "ada" / "tiny")


def test_two_do_not_pull_the_same(shared, models):
    staging = models / ".incoming" / "ada--tiny"
    staging.mkdir(parents=True)
    with work_lock(staging / "lock"), pytest.raises(ModelError, match="Another process is pulling ada/tiny"):
        pull(shared, "ada/tiny", models, show=ignore)
    assert staging.exists()


@pytest.mark.parametrize("file", ["config.toml", "model.safetensors"])
def test_what_is_not_sound_comes_nowhere(shared, models, file):
    (shared.folder / "ada" / "tiny" / file).write_bytes(b"\x80\x04evil")
    with pytest.raises(ModelError, match="ada/tiny cannot be used") as caught:
        pull(shared, "ada/tiny", models, show=ignore)
    assert "tell its owner" in (caught.value.hint or "")
    assert list(models.iterdir()) == []


def test_a_repository_without_a_model_is_told(shared, models):
    (shared.folder / "ada" / "tiny" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no model of mbc: it has no model\.safetensors"):
        pull(shared, "ada/tiny", models, show=ignore)


@pytest.mark.parametrize("change", [{"size": 1}, {"sha256": "0" * 64}])
def test_a_file_that_is_not_as_listed_is_not_kept(shared, models, change):
    class Lying(FolderHub):
        def listing(self, repository, revision=None):
            listing = super().listing(repository, revision)
            first, *others = listing.files
            made = HubFile(**{"name": first.name, "size": first.size, "sha256": None, **change})
            return Listing(repository, None, (made, *others))

    with pytest.raises(ModelError, match=r"config\.toml did not come as the hub has it"):
        pull(Lying(shared.folder), "ada/tiny", models, show=ignore)
    assert not (models / ".incoming" / "ada--tiny" / "parts" / "config.toml").exists()


def test_a_full_disk_is_told_before_anything_comes(shared, models, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(ModelError, match="MB left"):
        pull(shared, "ada/tiny", models, show=ignore)


def test_what_came_before_needs_no_room_again(shared, models, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        pull(Interrupted(shared, "adapter/adapter_model.safetensors"), "ada/tiny", models, show=ignore)
    left = shared.listing("ada/tiny").size - sum(
        path.stat().st_size for path in (models / ".incoming" / "ada--tiny" / "parts").rglob("*") if path.is_file()
    )
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, left))
    assert pull(shared, "ada/tiny", models, show=ignore).folder.is_dir()


def test_a_folder_that_cannot_be_written_is_told(shared, models):
    models.write_text("a file")
    with pytest.raises(ModelError, match="cannot be written"):
        pull(shared, "ada/tiny", models, show=ignore)


def test_a_pulled_model_is_pushed_with_its_card(shared, models, files):
    folder = pull(shared, "ada/tiny", models, show=ignore).folder
    push(shared, folder, "eve/tiny", show=ignore)
    assert files(shared.folder / "eve" / "tiny") == files(shared.folder / "ada" / "tiny")
