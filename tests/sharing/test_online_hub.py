"""The hub's own client, speaking to a hub that is played here: what it asks for, and what becomes of answers."""

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import HfApi, close_session, set_client_factory
from huggingface_hub.utils._http import default_client_factory

from mbc_engine.errors import ModelError
from mbc_engine.sharing.hub import HubFile, NotOnHub, OnlineHub
from mbc_engine.sharing.pulling import pull
from mbc_engine.sharing.pushing import CardOrigin, push
from tests.sharing.played_hub import LARGE, OTHER_SHA, SHA, PlayedHub, http_library


def ignore(event):
    """Show nothing."""


@pytest.fixture
def played(monkeypatch):
    """A hub that answers the client; nothing leaves this process."""
    hub = PlayedHub()
    set_client_factory(hub.client)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.test")
    yield hub
    close_session()
    set_client_factory(default_client_factory)


@pytest.fixture
def hub(played, here, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(here / "cache"))
    return OnlineHub(HfApi(endpoint="https://hub.test", token="hf_secret"))


@pytest.fixture
def shared(hub, played, saved):
    push(hub, saved, "ada/tiny", show=ignore)
    return hub


def test_a_model_goes_in_one_commit_and_comes_back(hub, played, saved, models, files):
    pushed = push(hub, saved, "ada/tiny", show=ignore)
    assert (pushed.revision, pushed.card) == (OTHER_SHA, CardOrigin.WRITTEN)
    (commit,) = played.committed
    assert sorted(line["value"]["path"] for line in commit if line["key"] == "file") == [
        "README.md",
        "adapter/adapter_config.json",
        "adapter/adapter_model.safetensors",
        "config.toml",
        LARGE,
    ]
    pulled = pull(hub, "ada/tiny", models, show=ignore)
    assert pulled.listing.revision == SHA
    came = files(pulled.folder)
    del came["README.md"]
    assert came == files(saved)
    assert not (models / ".incoming").exists()


def test_only_the_files_of_a_model_are_asked_for(shared, played, models):
    played.files["ada/tiny"] |= {"pytorch_model.bin": b"x", "evil.py": b"x", "../up": b"x", "adapter/x.pkl": b"x"}
    played.asked.clear()
    pull(shared, "ada/tiny", models, show=ignore)
    fetched = {path for method, path in map(str.split, played.asked) if "/resolve/" in path}
    assert fetched == {
        f"/ada/tiny/resolve/{SHA}/{name}"
        for name in (
            "README.md",
            "adapter/adapter_config.json",
            "adapter/adapter_model.safetensors",
            "config.toml",
            LARGE,
        )
    }


def test_a_listing_is_of_one_commit_with_sizes_and_digests(hub, played):
    played.files["ada/tiny"] = {"config.toml": b"abc", LARGE: b"w", "other": b"x"}
    listing = hub.listing("ada/tiny", "v1")
    assert listing.revision == SHA
    assert listing.files == (
        HubFile("config.toml", 3),
        HubFile(LARGE, 1, hashlib.sha256(b"w").hexdigest()),
    )
    assert played.asked == ["GET /api/models/ada/tiny/revision/v1"]


def test_bytes_are_told_as_they_come(hub, played, tmp_path):
    played.files["ada/tiny"] = {"config.toml": b"0123456789"}
    told: list[int] = []
    listing = hub.listing("ada/tiny")
    hub.fetch(listing, listing.files[0], tmp_path, told.append)
    assert told == [10]
    assert (tmp_path / "config.toml").read_bytes() == b"0123456789"


def test_a_file_that_came_is_not_fetched_again(shared, played, models):
    class Interrupted(OnlineHub):
        def fetch(self, listing, file, folder, moved):
            if file.name.startswith("adapter"):
                raise KeyboardInterrupt
            super().fetch(listing, file, folder, moved)

    with pytest.raises(KeyboardInterrupt):
        pull(Interrupted(shared._api), "ada/tiny", models, show=ignore)
    played.asked.clear()
    pull(shared, "ada/tiny", models, show=ignore)
    assert [request.rpartition("/")[2] for request in played.asked if request.startswith("GET /ada")] == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "README.md",
    ]


def test_a_tampered_file_is_not_kept(shared, played, models, monkeypatch):
    listing = shared.listing("ada/tiny")
    played.files["ada/tiny"][LARGE] = b"x" * len(played.files["ada/tiny"][LARGE])
    monkeypatch.setattr(shared, "listing", lambda *arguments: listing)
    with pytest.raises(ModelError, match="did not come as the hub has it"):
        pull(shared, "ada/tiny", models, show=ignore)


def test_a_card_that_somebody_wrote_there_is_kept(shared, played, saved):
    played.files["ada/tiny"]["README.md"] = b"My own."
    assert push(shared, saved, "ada/tiny", replaces=True, show=ignore).card is CardOrigin.KEPT
    assert played.files["ada/tiny"]["README.md"] == b"My own."


def test_a_new_repository_is_private_when_asked(hub, played, saved):
    push(hub, saved, "ada/tiny", is_private=True, show=ignore)
    assert played.private == {"ada/tiny": True}


def test_nothing_private_goes_to_a_public_repository(hub, played, saved):
    played.files["ada/tiny"] = {}
    with pytest.raises(ModelError, match="public"):
        push(hub, saved, "ada/tiny", is_private=True, show=ignore)
    assert played.committed == []


def test_without_a_login_nothing_is_sent(played, saved, monkeypatch):
    monkeypatch.setattr("mbc_engine.sharing.hub.get_token", lambda: None)
    with pytest.raises(ModelError, match="not logged in") as caught:
        push(OnlineHub(HfApi(endpoint="https://hub.test")), saved, "ada/tiny", show=ignore)
    assert "hf auth login" in (caught.value.hint or "")
    assert played.asked == ["GET /api/models/ada/tiny"]


def test_what_is_not_there_is_told(hub, played):
    with pytest.raises(NotOnHub, match="There is no ada/none on the hub"):
        hub.listing("ada/none")
    played.files["ada/tiny"] = {}
    with pytest.raises(ModelError, match="no revision 'v9'"):
        hub.listing("ada/tiny", "v9")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http_library.Response(401), "may not see it"),
        (http_library.Response(403, headers={"X-Error-Code": "GatedRepo"}), "gated"),
        (http_library.Response(403), "You may not do this"),
        (http_library.Response(429), "fewer requests"),
        (http_library.Response(500, text="broken"), "The hub refuses"),
        (http_library.ConnectError("no route"), "cannot be reached"),
        (http_library.ReadTimeout("slow"), "cannot be reached"),
        (ConnectionResetError(104, "Connection reset by peer"), "cannot be reached"),
        (OSError(28, "No space left on device"), "^No space left on device"),
    ],
)
def test_an_error_is_one_line_with_a_way_out(hub, played, answer, told):
    played.answer = answer
    with pytest.raises(ModelError, match=told) as caught:
        hub.listing("ada/tiny")
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    assert "hf_secret" not in caught.value.message + caught.value.hint


def test_offline_is_told_without_asking(here):
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        OnlineHub(HfApi(endpoint="https://hub.test")).listing("ada/tiny")


def test_a_disk_that_cannot_be_written_is_told(shared, models):
    listing = shared.listing("ada/tiny")
    models.write_text("a file")
    with pytest.raises(ModelError, match=str(models)):
        shared.fetch(listing, listing.files[0], Path(models), ignore)
