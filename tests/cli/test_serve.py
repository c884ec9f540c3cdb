"""Errors of `mbc serve` are reported in a line before a model is loaded; how it works is tested in `http/`."""

import socket
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "message", "hint", "code"),
    [
        (["--host", "0.0.0.0"], "reached from other machines", "--token-file", 2),
        (["--token-file", "short"], "is not valid", "openssl rand", 2),
        (["--documents", "short"], "cannot be used", "--documents", 2),
        (["--port", "65536"], "--port", "--help", 2),
        (["--max-body", "0"], "--max-body", "--help", 2),
        (["--bank", "b.mbc", "--bank", "missing.mbc"], "No bank at missing.mbc", "", 5),
        (["--bank", "notes/ada.txt"], "not a bank", "", 5),
        (["--bank", "memory.mbc", "--bank", "memory.mbc"], "twice", "", 2),
        (["--bank", "memory.mbc", "--weight", "1", "--weight", "2"], "weights (2) does not match", "", 2),
        (["--bank", "b.mbc"], "no-such-model", "", 4),
    ],
)
def test_errors_come_before_a_model_is_loaded(mbc, notes, make_bank, home, arguments, message, hint, code):
    make_bank("memory.mbc")
    (home / "short").write_text("secret")
    if "notes/ada.txt" in arguments:
        arguments = [*arguments, "--documents", "kept"]
    result = mbc("serve", "--model", "no-such-model", "--port", 0, *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert hint in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""
    assert not (home / "b.mbc").exists()


def test_a_token_in_the_environment_is_never_shown(mbc, monkeypatch):
    monkeypatch.setenv("MBC_TOKEN", "a secret")
    result = mbc("serve", "--host", "0.0.0.0", "--model", "no-such-model", "--port", 0, "--verbose")
    assert result.exit_code == 2
    assert "in MBC_TOKEN is not valid" in result.stderr
    assert "a secret" not in result.output


def test_port_in_use(mbc):
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = mbc("serve", "--model", "no-such-model", "--port", other.getsockname()[1])
    assert result.exit_code == 2
    assert "cannot be used: Address already in use" in result.stderr


def test_missing_extra(mbc, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = mbc("serve")
    assert result.exit_code == 2
    assert "-e '.[serve]'" in result.stderr
