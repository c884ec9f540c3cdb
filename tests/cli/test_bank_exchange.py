import hashlib
import json
import os

import pytest


def test_a_bank_goes_out_and_comes_back(mbc, small_bank, home):
    lines = mbc("bank", "export", "--bank", small_bank).stdout_bytes
    assert len(lines.splitlines()) == 4
    assert mbc("bank", "export", "-", "--bank", small_bank, "--json").stdout_bytes == lines
    summary = json.loads(mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--json").stdout)
    assert (summary["documents"], summary["sha256"]) == (2, hashlib.sha256(lines).hexdigest())
    assert (home / "e.jsonl").read_bytes() == lines
    result = mbc("bank", "import", "e.jsonl", "--bank", "new.mbc")
    assert "2 documents, 8 chunks" in result.stdout
    assert mbc("bank", "export", "--bank", "new.mbc").stdout_bytes == lines
    summary = json.loads(mbc("bank", "import", "-", "--bank", "newer.mbc", "--json", stdin=lines).stdout)
    assert (summary["imported"], summary["bank"]["documents"]) == (2, 2)


def test_a_file_is_replaced_only_by_force(mbc, small_bank, home):
    (home / "e.jsonl").write_text("mine")
    result = mbc("bank", "export", "e.jsonl", "--bank", small_bank)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (home / "e.jsonl").read_text() == "mine"
    assert mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--force").exit_code == 0
    assert (home / "e.jsonl").read_bytes() == mbc("bank", "export", "--bank", small_bank).stdout_bytes
    (home / "mine").write_text("mine")
    (home / "link").symlink_to("mine")
    assert mbc("bank", "export", "link", "--bank", small_bank).exit_code == 2
    assert mbc("bank", "export", "link", "--bank", small_bank, "--force").exit_code == 0
    assert (home / "mine").read_text() == "mine"
    assert not (home / "link").is_symlink()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "is not a file") for name in ("pipe", "/dev/null", ".")),
        ("nowhere/e.jsonl", "nowhere/e.jsonl cannot be written: no such file or directory"),
    ],
)
def test_unwritable_target_is_an_error(mbc, small_bank, home, name, message):
    os.mkfifo(home / "pipe")
    result = mbc("bank", "export", name, "--bank", small_bank, "--force")
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_missing_export_is_an_error(mbc):
    result = mbc("bank", "import", "none.jsonl", "--bank", "new.mbc")
    assert result.exit_code == 3
    assert "none.jsonl cannot be read: no such file or directory" in result.stderr
