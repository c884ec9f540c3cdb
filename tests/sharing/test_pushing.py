"""What is pushed, whose card goes with it, and what is refused."""

import shutil

import pytest

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.sharing.card import MARK
from mbc_engine.sharing.pushing import CardOrigin, push


def ignore(event):
    """Show nothing."""


def card_of(hub, repository="ada/tiny"):
    return (hub.folder / repository / "README.md").read_text()


def test_a_model_goes_with_a_card_and_stays_as_it_is(saved, hub, files):
    (saved / "optimizer.pt").write_bytes(b"evil")
    before = files(saved)
    pushed = push(hub, saved, "ada/tiny", show=ignore)
    assert files(saved) == before
    there = files(hub.folder / "ada" / "tiny")
    assert there.pop("README.md").decode().count(MARK) == 1
    assert there == {name: content for name, content in before.items() if name != "optimizer.pt"}
    assert (pushed.card, pushed.revision) == (CardOrigin.WRITTEN, None)
    assert pushed.size == sum(map(len, files(hub.folder).values()))


def test_progress_ends_with_every_byte(saved, hub):
    events = []
    pushed = push(hub, saved, "ada/tiny", show=events.append)
    done = [event.done for event in events]
    assert (done[0], done) == (0, sorted(done))
    assert done[-1] == pushed.size == events[-1].total


def test_a_model_that_is_there_makes_way_only_when_asked(saved, shared, files):
    before = files(shared.folder)
    with pytest.raises(ConfigError, match="already"):
        push(shared, saved, "ada/tiny", show=ignore)
    assert files(shared.folder) == before
    push(shared, saved, "ada/tiny", replaces=True, show=ignore)
    assert files(shared.folder) == before


def test_the_card_beside_a_model_goes_with_it(saved, hub):
    (saved / "README.md").write_text("My own.")
    assert push(hub, saved, "ada/tiny", show=ignore).card is CardOrigin.BESIDE
    assert card_of(hub) == "My own."


def test_a_card_that_somebody_wrote_on_the_hub_is_kept(saved, shared):
    (shared.folder / "ada" / "tiny" / "README.md").write_text("My own.")
    assert push(shared, saved, "ada/tiny", replaces=True, show=ignore).card is CardOrigin.KEPT
    assert card_of(shared) == "My own."


def test_a_card_that_was_written_here_is_written_anew(saved, shared):
    pushed = push(shared, saved, "ada/tiny", replaces=True, licence="mit", show=ignore)
    assert pushed.card is CardOrigin.WRITTEN
    assert 'license: "mit"' in card_of(shared)


def test_a_card_by_hand_is_replaced_when_asked(saved, shared):
    (saved / "README.md").write_text("My own.")
    push(shared, saved, "ada/tiny", replaces=True, renews_card=True, show=ignore)
    assert MARK in card_of(shared)
    assert (saved / "README.md").read_text() == "My own."


def test_a_licence_that_would_not_be_in_the_card_is_not_passed_over(saved, hub, files):
    (saved / "README.md").write_text("My own.")
    with pytest.raises(ConfigError, match="license"):
        push(hub, saved, "ada/tiny", licence="mit", show=ignore)
    assert files(hub.folder) == {}


def test_what_others_could_not_use_is_not_pushed(saved, hub, files):
    config = (saved / "config.toml").read_text()
    (saved / "config.toml").write_text(config.replace('"tiny/gpt2"', f'"{saved}"'))
    with pytest.raises(ModelError, match="a place on one machine") as caught:
        push(hub, saved, "ada/tiny", show=ignore)
    assert caught.value.hint == "Others could not use it either; mend it before it is shared."
    assert files(hub.folder) == {}


@pytest.mark.parametrize("file", ["config.toml", "model.safetensors", "adapter/adapter_model.safetensors"])
def test_a_model_that_its_training_replaces_meanwhile_is_not_pushed(saved, hub, files, file):
    shutil.copytree(saved, saved.with_name("new"))

    def replace(event):
        if event.file == file and event.done and saved.with_name("new").exists():
            saved.rename(saved.with_name("old"))
            saved.with_name("new").rename(saved)

    with pytest.raises(ModelError, match="changed on its way"):
        push(hub, saved, "ada/tiny", show=replace)
    assert files(hub.folder) == {}


@pytest.mark.parametrize("repository", ["../x", "tiny", "/x/y", "ada/.tiny"])
def test_a_repository_leads_nowhere_else(saved, hub, files, repository):
    with pytest.raises(ConfigError):
        push(hub, saved, repository, show=ignore)
    assert files(hub.folder) == {}
