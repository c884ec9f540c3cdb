"""An ingest killed at random moments while another process reads: what is committed stays, the rest is redone."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from mbc_engine import MemoryBank, ingest, load_model, open_bank
from mbc_engine.bank import count
from mbc_engine.bank.exchange import export
from mbc_engine.bank.text_codec import decode_chunk
from mbc_engine.bank.verification import verify
from mbc_engine.mini.model import save

# Loads the model once and forks a process for every ingest that is to be killed: loading takes seconds, a fork nothing.
# Each is killed a moment after some commits, at most MOST; one that has added FAR documents waits to be killed. So the
# bank is neither empty nor full after the last kill, however fast the machine.
MOST, FAR = 4, 24
KILLED = """
    import os, random, signal, sys, time
    from pathlib import Path
    from mbc_engine import ingest, load_model, open_bank
    from mbc_engine.events import DocumentsIngested

    model_folder, folder, path, rounds, most, far = sys.argv[1:]
    model = load_model(model_folder)
    moments = random.Random(0)
    for _ in range(int(rounds)):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            with open_bank(model, Path(path)) as bank:
                documents = 0
                for event in ingest(model, bank, [Path(folder)], batch_chunks=4):
                    if isinstance(event, DocumentsIngested) and event.documents > documents:
                        documents = event.documents
                        os.write(write_end, b"%d " % (documents + event.unchanged))
                        if documents >= int(far):
                            signal.pause()
            os._exit(0)
        os.close(write_end)
        output, commits = b"", moments.randrange(int(most) + 1)
        while output.count(b" ") < commits and (more := os.read(read_end, 1 << 16)):
            output += more
        time.sleep(moments.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(read_end, 1 << 16):
            output += more
        os.close(read_end)
        print((output.split() or [b"0"])[-1].decode(), flush=True)
        sys.stdin.readline()
"""
READER = """
    import sys
    from pathlib import Path
    from mbc_engine.bank import MemoryBank, count
    from mbc_engine.errors import BankError

    looks = 0
    while not (looks and Path(sys.argv[2]).exists()):
        try:
            with MemoryBank.open(Path(sys.argv[1]), read_only=True) as bank, bank.snapshot():
                counts, totals = bank.counts(), bank.totals()
                found = sum((count(codes, bank.header.shape) for codes, _ in bank.blocks()), 0 * counts)
                assert (found == counts).all(), "the counts are not those of the codes"
                assert totals.documents == sum(1 for _ in bank.documents())
                assert len(bank.texts_at(range(totals.chunks))) == totals.chunks
                looks += 1
        except BankError as error:
            assert "No bank at" in str(error) or "is not a bank" in str(error), error
    print(looks)
"""


@pytest.mark.slow
def test_kills_leave_an_intact_bank(tiny, rounds, tmp_path):
    save(tiny.retriever_reader(), tmp_path / "model")
    model = load_model(str(tmp_path / "model"))  # by the name that the other processes use
    folder = tmp_path / "news"
    folder.mkdir()
    number = rounds(full=200, reduced=6)
    stories = 2 * FAR * number
    for story in range(stories):
        text = "The river rose. The bridge held. Ada moved to Bergen. " * (1 + story % 3)
        (folder / f"{story:05d}.txt").write_text(f"Story {story}. {text}")
    path, end = tmp_path / "b.mbc", tmp_path / "end"
    ingesting = _python(KILLED, tmp_path / "model", folder, path, number, MOST, FAR)
    reading = _python(READER, path, end)
    documents = 0
    try:
        for _ in range(number):
            committed = int(ingesting.stdout.readline())
            if path.exists() and path.stat().st_size:
                kept = _require_whole(path, model)
                assert kept >= max(committed, documents)
                documents = kept
            else:
                assert committed == 0
            ingesting.stdin.write("\n")
            ingesting.stdin.flush()
        assert ingesting.wait() == 0
        end.touch()
        assert reading.wait() == 0
        assert int(reading.stdout.read()) > 0
    finally:
        for process in (ingesting, reading):
            process.kill()
            process.communicate()
    assert 0 < documents < stories
    with open_bank(model, path) as bank, open_bank(model, tmp_path / "serial.mbc") as serial:
        *_, last = ingest(model, bank, [folder])
        assert (last.unchanged, last.documents) == (documents, stories - documents)
        list(ingest(model, serial, [folder]))
        assert b"".join(export(bank)) == b"".join(export(serial))


def _require_whole(path, model):
    """Check that a bank is intact, with the texts of all its chunks; returns the number of its documents."""
    *_, last = verify(path)
    assert last.damages == 0
    with MemoryBank.open(path, read_only=True) as bank, bank.snapshot():
        found = sum((count(codes, bank.header.shape) for codes, _ in bank.blocks()), 0 * bank.counts())
        assert np.array_equal(found, bank.counts())
        for document in bank.documents(whole=True):
            (origin,) = document.origins
            assert list(map(decode_chunk, document.texts)) == model.chunker.chunks(Path(origin.source).read_text())
        return bank.totals().documents


@pytest.mark.slow
def test_workers_end_with_a_killed_ingest(tiny, tmp_path):
    save(tiny.retriever_reader(), tmp_path / "model")
    for story in range(1000):
        (tmp_path / f"{story}.txt").write_text(f"Story {story}. The bridge held.")
    script = """
        import multiprocessing, sys, os
        from pathlib import Path
        from mbc_engine import ingest, load_model, open_bank
        from mbc_engine.events import DocumentsIngested

        if __name__ == "__main__":
            model = load_model(sys.argv[1])
            with open_bank(model, Path(sys.argv[2])) as bank:
                for event in ingest(model, bank, [Path(sys.argv[3])], workers=2, batch_chunks=4):
                    if isinstance(event, DocumentsIngested):
                        print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    """
    ingesting = _python(script, tmp_path / "model", tmp_path / "b.mbc", tmp_path)
    readers = [int(pid) for pid in ingesting.stdout.readline().split()]
    ingesting.send_signal(signal.SIGKILL)
    ingesting.communicate()
    assert len(readers) == 2
    for pid in readers:
        _await_end(pid)


def _await_end(pid):
    """Wait, as long as the test may take, until a process that is not our child has ended."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    handle = os.pidfd_open(pid) if Path(f"/proc/{pid}").exists() else None
    if handle is not None:
        select.select([handle], [], [])
        os.close(handle)


def _python(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
