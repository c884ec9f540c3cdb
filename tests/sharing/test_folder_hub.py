"""A folder as a hub: whole models or none, and nothing that lies outside of it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.sharing import hub as folder_hub
from mbc_engine.sharing.hub import FolderHub, HubFile, Listing, NotOnHub


def publish(hub, contents, repository="ada/tiny"):
    return hub.publish(repository, contents, is_private=False, message="", moved=lambda name, done: None)


def test_a_listing_has_the_files_of_a_model_and_their_sizes(hub):
    publish(hub, {"config.toml": b"abc", "README.md": b"d"})
    (hub.folder / "ada" / "tiny" / "run.sh").write_text("x")
    listing = hub.listing("ada/tiny")
    assert listing == Listing("ada/tiny", None, (HubFile("config.toml", 3), HubFile("README.md", 1)))
    assert listing.missing == ("model.safetensors", "adapter/adapter_config.json", "adapter/adapter_model.safetensors")
    assert (listing.size, listing.has_card, listing.holds_something) == (4, True, True)


@given(before=st.binary(max_size=40), content=st.binary(max_size=40), block=st.integers(1, 16))
def test_whatever_came_before_a_copy_is_the_same(tmp_path_factory, before, content, block):
    folder = tmp_path_factory.mktemp("copy")
    hub = FolderHub(folder)
    publish(hub, {"config.toml": content})
    (folder / "config.toml").write_bytes(before)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_hub, "_BLOCK", block)
        listing = hub.listing("ada/tiny")
        hub.fetch(listing, listing.files[0], folder, told.append)
    assert (folder / "config.toml").read_bytes() == content
    assert told == [*range(block, len(content), block), *([len(content)] if content else [])]


def test_what_came_before_is_not_written_again(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_hub, "_BLOCK", 4)
    publish(hub, {"config.toml": b"aaaabbbbcc"})
    (tmp_path / "config.toml").write_bytes(b"aaaab")
    reached = []

    def stop(done):
        reached.append((done, (tmp_path / "config.toml").stat().st_mtime_ns))

    os.utime(tmp_path / "config.toml", ns=(1, 1))
    listing = hub.listing("ada/tiny")
    hub.fetch(listing, listing.files[0], tmp_path, stop)
    assert reached[0] == (4, 1)
    assert (tmp_path / "config.toml").read_bytes() == b"aaaabbbbcc"


def test_a_model_takes_the_place_of_another_and_leaves_what_lies_beside_it(hub, files):
    publish(hub, {"config.toml": b"old", "adapter/adapter_config.json": b"{}", "README.md": b"mine"})
    home = hub.folder / "ada" / "tiny"
    (home / "notes").mkdir()
    (home / "notes" / "a.txt").write_text("a")
    (home / ".gitattributes").write_text("b")
    publish(hub, {"config.toml": b"new", "model.safetensors": b"w"})
    assert files(home) == {
        "config.toml": b"new",
        "model.safetensors": b"w",
        "README.md": b"mine",
        "notes/a.txt": b"a",
        ".gitattributes": b"b",
    }
    assert [entry.name for entry in home.parent.iterdir()] == ["tiny"]


def test_a_full_disk_is_that_of_the_copy(hub, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    publish(hub, {"config.toml": b"c"})
    listing = hub.listing("ada/tiny")
    monkeypatch.setattr(folder_hub, "_copy", full)
    with pytest.raises(ModelError, match=f"^{tmp_path / 'config.toml'}: No space left"):
        hub.fetch(listing, listing.files[0], tmp_path, lambda done: None)


@pytest.mark.parametrize("name", ["README.md", "adapter"])
def test_a_link_out_of_a_repository_leads_nowhere(hub, tmp_path, name):
    (tmp_path / "private").mkdir()
    for file in ("secret", "adapter_config.json"):
        (tmp_path / "private" / file).write_text("mine")
    publish(hub, {"config.toml": b"c"})
    home = hub.folder / "ada" / "tiny"
    (home / name).symlink_to(tmp_path / "private" / "secret" if name == "README.md" else tmp_path / "private")
    assert hub.listing("ada/tiny").files == (HubFile("config.toml", 1),)


def test_a_link_beside_a_model_stays_a_link(hub, tmp_path):
    (tmp_path / "large").mkdir()
    publish(hub, {"config.toml": b"old"})
    link = hub.folder / "ada" / "tiny" / "data"
    link.symlink_to(tmp_path / "large")
    publish(hub, {"config.toml": b"new"})
    assert link.readlink() == tmp_path / "large"


def test_a_model_moved_aside_by_a_push_that_was_killed_comes_back(hub, files):
    publish(hub, {"config.toml": b"old"})
    home = hub.folder / "ada" / "tiny"

    class Killed(BaseException):
        """Ends a push where nothing can be mended any more."""

    def kill(folder, target):
        os.rename(folder, target)  # noqa: PTH104
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", kill)
        patch.setattr("mbc_engine.sharing.hub.restore", lambda place, aside: None)
        publish(hub, {"config.toml": b"new"})
    assert not home.exists()
    with pytest.raises(ModelError):
        publish(hub, {"config.toml": hub.folder / "nonesuch"})
    assert files(hub.folder) == {"ada/tiny/config.toml": b"old"}


def test_what_cannot_be_published_whole_is_not_published(hub, files, tmp_path):
    publish(hub, {"config.toml": b"old"})
    with pytest.raises(ModelError, match="No such file"):
        publish(hub, {"config.toml": b"new", "model.safetensors": tmp_path / "nonesuch"})
    assert files(hub.folder) == {"ada/tiny/config.toml": b"old"}


def test_progress_is_told_by_file(hub, tmp_path):
    (tmp_path / "w").write_bytes(b"12345")
    told = []
    contents = {"model.safetensors": tmp_path / "w"}
    hub.publish("ada/tiny", contents, is_private=False, message="", moved=lambda *moved: told.append(moved))
    assert told == [("model.safetensors", 5)]


def test_what_a_folder_cannot_do_is_told(hub):
    with pytest.raises(NotOnHub, match="There is no ada/none"):
        hub.listing("ada/none")
    publish(hub, {"config.toml": b""})
    with pytest.raises(ConfigError, match="revisions"):
        hub.listing("ada/tiny", "v1")
    with pytest.raises(ConfigError, match="private"):
        hub.publish("ada/tiny", {}, is_private=True, message="", moved=lambda name, done: None)
    with pytest.raises(ModelError, match="There is no folder"):
        FolderHub(Path("nonesuch"))
    with pytest.raises(ModelError, match="File name too long"):
        FolderHub(Path("n" * 300))
