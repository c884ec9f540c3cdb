"""An ingest on Ray makes the same bank as a serial one, whatever happens to the processes."""

import json
import math
import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import ray
from ray import cloudpickle

from mbc_engine import ingest, load_model, open_bank
from mbc_engine.errors import MBCError, ModelMismatch
from mbc_engine.events import DocumentsIngested
from mbc_engine.ingestion.ray import Actors, EncodingActor, connected, room_for
from mbc_engine.mini.model import save
from mbc_engine.text.chunks import Chunker
from tests.ingestion.conftest import last_of, lines, skipped

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),  # one cluster at a time
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pipes to processes that Ray ends
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Ray on this machine, with room for two actors."""
    with connected():
        yield


def test_other_users_cannot_reach_the_cluster_s_files():
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    assert session.parents[1].stat().st_mode & 0o777 == 0o700


@pytest.fixture(scope="module")
def model(tiny, tmp_path_factory):
    """A tiny model that other processes can load, without torch, in a second."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny.retriever_reader(), folder)
    return load_model(str(folder))


@pytest.fixture
def folder(tmp_path):
    """Stories, two of them alike, rows, an empty file and a picture."""
    folder = tmp_path / "news"
    folder.mkdir()
    for number in range(30):
        sentences = "The river rose. " * (number % 7)
        (folder / f"{number:02d}.txt").write_text(f"Story number {number}. {sentences}Nobody was hurt.")
    (folder / "copy.md").write_text("It rained.")
    (folder / "copy of copy.md").write_text("It rained.")
    rows = ({"id": name, "text": f"{name} moved to Bergen."} for name in ("ada", "bruno", "clara"))
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "nothing.txt").touch()
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


ONE, TWO = (Actors(number=number, chunks=4, cpus=0.5) for number in (1, 2))


def test_bank_equals_a_serial_one(model, folder, tmp_path):
    with open_bank(model, tmp_path / "serial.mbc") as serial, open_bank(model, tmp_path / "ray.mbc") as bank:

        def both():
            serial_events = list(ingest(model, serial, [folder], prune=True))
            ray_events = list(ingest(model, bank, [folder], prune=True, actors=TWO))
            assert lines(bank) == lines(serial)
            expected, finished = last_of(serial_events), last_of(ray_events)
            assert counts(expected) == counts(finished)
            assert skipped(serial_events) == skipped(ray_events)
            return finished

        first = both()
        assert (first.documents, first.skipped, first.bank_origins) == (35, 2, 35)
        assert 0 < first.encoding <= first.seconds
        (folder / "00.txt").write_text("Another story altogether.")
        (folder / "01.txt").unlink()
        (folder / "02.txt").rename(folder / "renamed.txt")
        (folder / "rows.jsonl").write_text(json.dumps({"id": "dora", "text": "Dora stayed."}))
        changed = both()
        assert (changed.documents, changed.unchanged, changed.removed) == (3, 29, 5)


def counts(end):
    """Without `chunks`: what moved was encoded again."""
    return end.documents, end.unchanged, end.removed, end.skipped, end.bank_chunks


def test_bank_without_origins(model, folder, tmp_path):
    with (
        open_bank(model, tmp_path / "serial.mbc", keeps_origins=False) as serial,
        open_bank(model, tmp_path / "ray.mbc", keeps_origins=False) as bank,
    ):
        list(ingest(model, bank, [folder / "rows.jsonl"]))
        last_of(ingest(model, serial, [folder]))
        last = last_of(ingest(model, bank, [folder], actors=ONE))
        assert lines(bank) == lines(serial)
        assert (last.documents, last.unchanged) == (32, 3)


def processes(kind):
    """Ray's processes of this kind below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if f"ray::{kind}" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def many_stories(folder, number):
    folder.mkdir()
    for story in range(number):
        (folder / f"{story:04d}.txt").write_text(f"Story {story}. The bridge held. Ada moved to Bergen.")


def test_stop_and_killed_actors(model, tmp_path, rounds):
    folder, stop = tmp_path / "news", threading.Event()
    many_stories(folder, 300)
    with open_bank(model, tmp_path / "serial.mbc") as serial, open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, serial, [folder]))
        wanted = lines(serial)
        events = []
        for event in ingest(model, bank, [folder], actors=ONE, stop=stop):
            events.append(event)
            if isinstance(event, DocumentsIngested) and event.documents:
                stop.set()
        assert not last_of(events).is_complete
        assert 0 < last_of(events).documents == bank.totals().documents < 300
        for _ in range(rounds(full=5, reduced=1)):
            killed = []
            for event in ingest(model, bank, [folder], actors=TWO):
                if isinstance(event, DocumentsIngested) and event.documents and not killed:
                    killed = processes("EncodingActor")[:1]
                    killed[0].send_signal(signal.SIGKILL)
                    assert bank.totals().documents < 300
            assert killed
            assert not psutil.wait_procs(killed, timeout=120)[1]  # the kernel may still be clearing it away
            assert lines(bank) == wanted
            bank.remove([origin[:2] for origin in list(bank.origins())[128:]])


@dataclass(frozen=True)
class KillingChunker(Chunker):
    """Kills the process that is given such a text to cut."""

    def chunks(self, text, sections=()):
        if "deadly" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chunks(text, sections)


def test_files_that_crash_actors_are_named(model, tmp_path, monkeypatch):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    folder = tmp_path / "news"
    many_stories(folder, 160)
    (folder / "0150.txt").write_text("A deadly story.")
    own = model.chunker
    monkeypatch.setitem(model.__dict__, "chunker", KillingChunker(own.tokenizer, own.capacity))
    monkeypatch.setattr("mbc_engine.ingestion.ingest._COMMIT_SECONDS", math.inf)  # the error saves what is encoded
    with open_bank(model, tmp_path / "b.mbc") as bank:
        with pytest.raises(MBCError, match=r"0140\.txt to .*0159\.txt, died 4 times") as raised:
            list(ingest(model, bank, [folder], actors=TWO))
        assert "--engine local" in raised.value.hint
        assert bank.totals().documents >= 140
        assert all(Path(origin.source).name < "0150.txt" for origin in bank.origins())


def test_other_model_on_actors_is_refused(model, tiny, folder, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(model.folder, copy)
    local = load_model(str(copy))
    shutil.rmtree(copy)
    save(tiny.retriever_reader(window=16), copy)
    with open_bank(local, tmp_path / "b.mbc") as bank:
        with pytest.raises(ModelMismatch, match="differs between this machine"):
            list(ingest(local, bank, [folder], actors=ONE))
        assert bank.totals().documents == 0


class Missing(EncodingActor):
    """An encoder where mbc is not installed."""

    def __init__(self, *given):
        raise ModuleNotFoundError("No module named 'mbc_engine'")


def test_failing_actors_are_reported(model, folder, tmp_path, monkeypatch):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("mbc_engine.ingestion.ray.EncodingActor", Missing)
    with (
        open_bank(model, tmp_path / "b.mbc") as bank,
        pytest.raises(MBCError, match=r"^Ray failed: ModuleNotFoundError: No module named 'mbc_engine'$"),
    ):
        list(ingest(model, bank, [folder], actors=ONE))


def test_room_for_actors():
    assert room_for(Actors(cpus=0.5)) == 2 * room_for(Actors())
    with pytest.raises(MBCError, match=r"1000 CPUs and 0 GPUs"):
        room_for(Actors(cpus=1000))


def test_cluster_listens_on_loopback_only():
    assert ray.util.get_node_ip_address() == "127.0.0.1"
    below = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = set()
    for process in below:
        with suppress(psutil.NoSuchProcess):  # Ray ends workers it has no more use for
            listening |= {own.laddr.ip for own in process.net_connections("inet") if own.status == "LISTEN"}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
