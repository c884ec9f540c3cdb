import json

import pytest


@pytest.fixture
def shards(make_bank, record):
    """Two banks that share a document."""
    return (
        make_bank("1.mbc", record("/a", "Ada"), record("/b", "Bruno")),
        make_bank("2.mbc", record("/c", "Clara"), record("/d", "Ada")),
    )


def test_a_bank_is_made_or_grows(mbc, shards):
    before = shards[1].read_bytes()
    result = mbc("bank", "merge", *shards, "--bank", "all.mbc")
    assert result.exit_code == 0
    assert "3 documents from 4 origins, 13 chunks" in result.stdout
    summary = json.loads(mbc("bank", "merge", shards[1], "--bank", shards[0], "--json").stdout)
    assert (summary["documents"], summary["origins"], summary["chunks"]) == (3, 4, 13)
    assert shards[1].read_bytes() == before


def test_failed_merge_leaves_no_bank(mbc, shards, home):
    (home / "link.mbc").symlink_to(shards[0])
    result = mbc("bank", "merge", shards[1], "link.mbc", "--bank", shards[0])
    assert result.exit_code == 2
    assert "into itself" in result.stderr
    result = mbc("bank", "merge", shards[0], "none.mbc", "--bank", "all.mbc")
    assert result.exit_code == 5
    assert "none.mbc" in result.stderr
    assert not list(home.glob("all.mbc*"))
