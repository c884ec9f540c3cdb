"""Errors of `mbc serve` are reported in a line before a model is loaded; how it works is tested in `http/`."""

import socket

import pytest


@pytest.mark.parametrize(
    ("arguments", "message", "hint", "code"),
    [
        (["--host", "0.0.0.0"], "reached from other machines", "--token-file", 2),
        (["--token-file", "short"], "is not valid", "openssl rand", 2),
        (["--documents", "short"], "cannot be used", "--documents", 2),
        (["--max-body", "0"], "--max-body", "--help", 2),
        (["--bank", "b.mbc", "--bank", "missing.mbc"], "No bank at missing.mbc", "", 5),
        (["--bank", "notes/ada.txt"], "not a bank", "", 5),
        (["--bank", "memory.mbc", "--bank", "memory.mbc"], "twice", "", 2),
        (["--bank", "memory.mbc", "--weight", "1", "--weight", "2"], "weights (2) does not match", "", 2),
        (["--bank", "b.mbc"], "no-such-model", "", 4),
    ],
)
def test_errors_come_before_a_model_is_loaded(refusal, notes, make_bank, home, arguments, message, hint, code):
    make_bank("memory.mbc")
    (home / "short").write_text("secret")
    if "notes/ada.txt" in arguments:
        arguments = [*arguments, "--documents", "kept"]
    error = refusal(code, "serve", "--model", "no-such-model", "--port", 0, *arguments)
    assert message in error and hint in error and "secret" not in error
    assert not (home / "b.mbc").exists()


def test_port_in_use(refusal):
    with socket.create_server(("127.0.0.1", 0)) as other:
        error = refusal(2, "serve", "--model", "no-such-model", "--port", other.getsockname()[1])
    assert "cannot be used: Address already in use" in error
