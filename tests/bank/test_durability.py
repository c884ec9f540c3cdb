"""Killed processes, full disks, power cuts: what was reported as done survives, and the bank stays intact."""

import os
import random
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError

PROGRAM = Path(__file__).with_name("processes.py")
processes = SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def start(*arguments):
    return subprocess.Popen([sys.executable, str(PROGRAM), *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def run(*arguments):
    """Run a process to its end and return the lines it prints."""
    done = subprocess.run([sys.executable, str(PROGRAM), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def killed_after(process, lines, seconds):
    """Kill a process some time after this many lines and return all that it printed."""
    with process:
        assert process.stdout
        first = [process.stdout.readline().strip() for _ in range(lines)]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        return [line for line in (*first, *process.stdout.read().splitlines()) if line]


def state(path):
    with MemoryBank.open(path) as bank:
        return processes.state_of(bank)


@contextmanager
def watched(path):
    """Have another process read the bank meanwhile."""
    with start("watch", path) as watcher:
        assert watcher.stdout
        assert watcher.stdout.readline() == "watching\n"
        try:
            yield
        finally:
            watcher.send_signal(signal.SIGTERM)
        snapshots = int(watcher.stdout.read() or 0)
    assert watcher.returncode == 0
    assert snapshots > 0
    print(f"{snapshots} snapshots were whole")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bank.mbc"


@pytest.mark.slow
def test_a_killed_writer_leaves_what_it_reported_and_nothing_half_done(made, path, rounds):
    rng = random.Random(1)
    processes.open_bank(path).close()
    before: dict[str, str] = {}
    kills = between = 0
    with watched(path):
        for _ in range(rounds(full=200, reduced=6)):
            lines = rng.randrange(1, processes.STEPS)
            reported = len(killed_after(start("write", path), lines, rng.random() * 0.03))
            kills += reported < processes.STEPS
            found = state(path)
            steps = [steps for steps in (reported, reported + 1) if found == processes.state_after(steps, before)]
            assert steps, f"neither {reported} nor {reported + 1} steps"
            between += steps[0] == reported + 1
            assert made.damages(path) == []
            before = found
        run("write", path)
    print(f"{kills} writers killed, {between} of them between a commit and its report")
    run("write", path.with_name("serial.mbc"))
    assert state(path) == processes.state_after(processes.STEPS, before)
    serial = path.with_name("serial.mbc")
    run("write", path)
    assert state(serial) == processes.state_after(processes.STEPS, {})
    leftover = [(source, "") for source in state(path).keys() - state(serial).keys()]
    with MemoryBank.open(path) as bank:
        bank.remove(leftover)  # left by an earlier run that got further
    assert processes.lines(path) == processes.lines(serial)


@pytest.mark.slow
def test_a_killed_creation_leaves_a_bank_or_none(made, path, rounds):
    rng = random.Random(2)
    for _ in range(rounds(full=60, reduced=5)):
        killed_after(start("large", path, 1), 0, 0.1 + rng.random() * 0.1)
        try:
            assert state(path) in ({}, processes.state_after(0, {"/folder/0": processes.item(0, 0).digest[:32]}))
        except BankError as error:
            assert "No bank at" in str(error), error
            processes.open_bank(path).close()
        assert made.damages(path) == []
        for file in path.parent.iterdir():
            file.unlink()


def test_a_creation_stopped_while_its_file_was_written_is_undone(path, tmp_path):
    whole, half = tmp_path / "whole.mbc", tmp_path / "half.mbc"
    processes.open_bank(whole).close()
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # the mode until the first transaction ends
    with closing(sqlite3.connect(half, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (zeroblob(1000000))")  # more than is kept in memory
        journal = half.with_name("half.mbc-journal").read_bytes()
    assert journal
    # The pages are written, and the journal says that the file was empty before.
    for read_only in (True, False):
        path.write_bytes(whole.read_bytes())
        path.with_name("bank.mbc-journal").write_bytes(journal)
        with pytest.raises(BankError, match="No bank at"):
            MemoryBank.open(path, read_only=read_only)
    path.write_bytes(whole.read_bytes())
    path.with_name("bank.mbc-journal").write_bytes(journal)
    processes.open_bank(path).close()
    assert state(path) == {}


@pytest.mark.slow
def test_a_killed_compaction_changes_nothing(made, path, tmp_path, rounds):
    rng = random.Random(3)
    run("compact", path)
    expected = processes.lines(path)
    reached = 0
    for _ in range(rounds(full=100, reduced=4)):
        for file in tmp_path.iterdir():
            file.unlink()
        lines = killed_after(start("compact", path), 1, rng.random() * 0.03)
        reached += lines[-1] == "compacting"
        assert made.damages(path) == []
        assert processes.lines(path) == expected
    print(f"{reached} killed in compact")
    with MemoryBank.open(path) as bank:
        bank.compact()
    assert processes.lines(path) == expected
    assert made.damages(path) == []


@pytest.mark.slow
def test_a_killed_replacement_leaves_the_old_or_the_new(made, path, rounds):
    rng = random.Random(4)
    old, new = path.with_name("old.mbc"), path.with_name("new.mbc")
    run("large", old, 2000)
    run("large", new, 3000)
    either = {processes.lines(old): 0, processes.lines(new): 0}
    for _ in range(rounds(full=100, reduced=4)):
        shutil.copy(old, path)
        with watched(path) if rng.random() < 0.1 else nothing():
            killed_after(start("replace", path, new), 1, rng.random() * 0.02)
        found = processes.lines(path)
        assert found in either
        either[found] += 1
        assert made.damages(path) == []
        for file in path.parent.glob("bank.mbc*"):
            file.unlink()
    print(f"{list(either.values())} killed before and after the content was replaced")


@contextmanager
def nothing():
    yield


def test_a_power_cut_loses_whole_changes_only(made, path, tmp_path, rounds):
    """Any part of the log from its start may be left: cut off anywhere, or overwritten from some point on."""
    rng = random.Random(5)
    states = [{}]
    with processes.open_bank(path) as bank:
        for number in range(12):
            kind, items = processes.step(number)
            bank.put(items) if kind == "add" else bank.remove([document.origin[:2] for document in items])
            states.append(processes.state_of(bank))
        file, log = path.read_bytes(), path.with_name(path.name + "-wal").read_bytes()
    after = tmp_path / "after.mbc"
    found = []
    for _ in range(rounds(full=300, reduced=12)):
        cut = rng.randrange(len(log) + 1)
        rest = rng.choice([b"", bytes(len(log) - cut), random.Random(6).randbytes(len(log) - cut)])
        after.write_bytes(file)
        after.with_name("after.mbc-wal").write_bytes(log[:cut] + rest)
        found.append(states.index(state(after)))
        assert made.damages(after) == []
    assert len(set(found)) > 5
    print(f"{len(found)} power cuts, back to any of {len(set(found))} states")


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def batches_before_full(lines):
    """The number of batches reported before the last line, which must say that the disk is full."""
    *reported, last = lines
    print(last)
    assert "the disk is full" in last
    return len(reported)


@pytest.mark.slow
def test_a_full_disk_stops_the_writer_and_nothing_else(made, tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk / "bank.mbc"
        batches = batches_before_full(run("fill", path, 0))
        with MemoryBank.open(path) as bank:
            assert bank.totals().documents == 40 * batches
        assert made.damages(path) == []
        ballast = disk / "ballast"
        try:
            ballast.write_bytes(bytes(1 << 20))
        except OSError:
            assert ballast.stat().st_size < 1 << 20
        with MemoryBank.open(path) as bank, pytest.raises(BankError, match="disk is full"):
            bank.compact()
            bank.put([processes.item(number, number) for number in range(100_000, 103_000)])
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        with MemoryBank.open(path) as bank:
            bank.put([processes.item(which, which) for which in range(40 * batches, 40 * batches + 40)])
            assert bank.totals().documents == 40 * batches + 40
            bank.compact()
        assert made.damages(path) == []


@pytest.mark.slow
def test_a_full_disk_can_be_read(made, tmp_path):
    """To read, SQLite wants room for the index of its log, but can do without."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk / "bank.mbc"
        run("large", path, 50)
        with (disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
            while True:
                ballast.write(bytes(4096))
        with MemoryBank.open(path, read_only=True) as reader:
            assert reader.totals().documents == 50
            (disk / "ballast").unlink()
            with MemoryBank.open(path) as writer:
                writer.remove([next(writer.origins())[:2]])
            assert reader.is_replaced()  # it cannot see the change, and is opened again
        assert len(state(path)) == 49


@pytest.mark.slow
@pytest.mark.parametrize("limit", [200_000, 300_000])
def test_a_file_that_may_not_grow_stops_the_writer_and_nothing_else(made, path, limit):
    batches = batches_before_full(run("fill", path, limit))
    assert batches > 2
    with MemoryBank.open(path) as bank:
        assert bank.totals().documents == 40 * batches
        processes.state_of(bank)
    assert made.damages(path) == []
    with MemoryBank.open(path) as bank:
        bank.put([processes.item(which, which) for which in range(40 * batches, 40 * batches + 40)])
        assert bank.totals().documents == 40 * batches + 40
    assert made.damages(path) == []


@pytest.mark.slow
def test_eight_readers_beside_a_writer_see_whole_states(path):
    processes.open_bank(path).close()
    faults: list[BaseException] = []
    ended = threading.Event()
    seen = [0] * 8

    def read(number):
        try:
            with MemoryBank.open(path, read_only=True) as bank:
                while not ended.is_set():
                    processes.state_of(bank)
                    seen[number] += 1
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    run("write", path)
    ended.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert all(seen)
    print(f"{sum(seen)} snapshots in eight threads")
    assert state(path) == processes.state_after(processes.STEPS, {})


@pytest.mark.slow
def test_writers_take_turns(made, path):
    writers = [start("write", path) for _ in range(4)]
    for writer in writers:
        with writer:
            assert writer.stdout
            assert writer.stdout.read().splitlines()[-1] == str(processes.STEPS)
        assert writer.returncode == 0
    assert made.damages(path) == []
    state(path)
