import json
import sqlite3

import pytest


@pytest.fixture
def made(make_bank, record):
    return make_bank("made.mbc", *(record(f"/{number}", "x" * number) for number in range(1, 41)))


@pytest.fixture
def damaged(made):
    """A bank one of whose codes has changed."""
    with sqlite3.connect(made) as connection:
        connection.execute("UPDATE codes SET data = CAST(zeroblob(length(data)) AS BLOB)")
    connection.close()
    return made


def test_a_whole_bank_is_said_to_be(mbc, made):
    result = mbc("bank", "verify", "--bank", made)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{made} is intact: 40 documents, 820 chunks.\n"


def test_a_whole_bank_as_json(mbc, made):
    assert json.loads(mbc("bank", "verify", "--bank", made, "--json").stdout) == {
        "path": str(made),
        "ok": True,
        "documents": 40,
        "chunks": 820,
        "findings": [],
    }


def test_damage_is_named_and_an_error(mbc, damaged):
    result = mbc("bank", "verify", "--bank", damaged)
    assert result.exit_code == 5
    assert "block 1: the checksum of its codes does not match\n" in result.stdout
    assert f"{damaged} is damaged in 2 places." in result.stderr


def test_damage_as_json(mbc, damaged):
    result = mbc("bank", "verify", "--bank", damaged, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (5, False)
    assert [finding["where"] for finding in told["findings"]] == ["block 1", "counts"]


def test_compacting_gives_room_back(mbc, made):
    before = json.loads(mbc("bank", "info", "--bank", made, "--json").stdout)["sizes"]["file"]
    told = json.loads(mbc("bank", "compact", "--bank", made, "--json").stdout)
    assert told["before"]["file"] == before >= told["after"]["file"]
    assert told["after"]["file"] == made.stat().st_size
    assert mbc("bank", "verify", "--bank", made).exit_code == 0


def test_compacting_tells_both_sizes(mbc, made):
    assert f"{made} now takes " in mbc("bank", "compact", "--bank", made).stdout
