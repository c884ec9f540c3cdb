import json
import sqlite3

import pytest


@pytest.fixture
def intact(make_bank, record):
    return make_bank("made.mbc", *(record(f"/{number}", "x" * number) for number in range(1, 41)))


def test_damage_is_named_and_an_error(mbc, intact):
    result = mbc("bank", "verify", "--bank", intact)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{intact} is intact: 40 documents, 820 chunks.\n"
    with sqlite3.connect(intact) as connection:
        connection.execute("UPDATE codes SET data = CAST(zeroblob(length(data)) AS BLOB)")
    connection.close()
    result = mbc("bank", "verify", "--bank", intact)
    assert result.exit_code == 5
    assert "block 1: the checksum of its codes does not match\n" in result.stdout
    assert f"{intact} is damaged in 3 places." in result.stderr
    result = mbc("bank", "verify", "--bank", intact, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"]) == (5, False)
    assert [finding["where"] for finding in report["findings"]] == ["block 1", "counts", "blocks"]


def test_compacting_gives_room_back(mbc, intact):
    before = intact.stat().st_size
    sizes = json.loads(mbc("bank", "compact", "--bank", intact, "--json").stdout)
    assert sizes["before"]["file"] == before >= sizes["after"]["file"] == intact.stat().st_size
