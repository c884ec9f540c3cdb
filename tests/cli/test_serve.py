"""Errors of `mbc serve` are reported in a line before a model is loaded; how it works is tested in `http/`."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.http.server import base_url, listen
from mbc_engine.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--host", "0.0.0.0"], "reached from other machines", "--token-file"),
        (["--host", "::"], "reached from other machines", "--token-file"),
        (["--token-file", "missing"], "cannot be read", "permissions"),
        (["--token-file", "short"], "is not valid", "openssl rand"),
        (["--documents", "notes"], "contains files other than", "--documents"),
        (["--documents", "short"], "cannot be used", "--documents"),
        (["--port", "65536"], "--port", "--help"),
        (["--max-body", "0"], "--max-body", "--help"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_way_out(
    mbc: Callable[..., Any], notes: Path, home: Path, arguments: list[str], message: str, hint: str
) -> None:
    (home / "short").write_text("secret")
    result = mbc("serve", "--model", "no-such-model", "--port", 0, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert hint in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""


def test_a_token_in_the_environment_is_never_shown(
    mbc: Callable[..., Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MBC_TOKEN", "a secret")
    result = mbc("serve", "--host", "0.0.0.0", "--model", "no-such-model", "--port", 0, "--verbose")
    assert result.exit_code == 2
    assert "in MBC_TOKEN is not valid" in result.stderr
    assert "a secret" not in result.output


def test_a_port_in_use_is_an_error_before_a_model_is_loaded(mbc: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = mbc("serve", "--model", "no-such-model", "--port", other.getsockname()[1])
    assert result.exit_code == 2
    assert "cannot be used: Address already in use" in result.stderr


def test_a_model_that_is_not_there_leaves_nothing_behind(mbc: Callable[..., Any], home: Path) -> None:
    result = mbc("serve", "--model", "no-such-model", "--port", 0, "--bank", "b.mbc")
    assert result.exit_code == 4
    assert not (home / "b.mbc").exists()


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--bank", "b.mbc", "--bank", "missing.mbc"], "No bank at missing.mbc", 5),
        (["--bank", "notes/ada.txt"], "not a bank", 5),
        (["--bank", "memory.mbc", "--bank", "memory.mbc"], "twice", 2),
        (["--bank", "memory.mbc", "--weight", "1", "--weight", "2"], "weights (2) does not match", 2),
    ],
)
def test_wrong_banks_are_errors_before_a_model_is_loaded(
    mbc: Callable[..., Any], bank: Path, arguments: list[str], message: str, code: int
) -> None:
    result = mbc("serve", "--model", "no-such-model", "--port", 0, "--documents", "kept", *arguments)
    assert message in result.stderr
    assert result.exit_code == code


def test_without_the_extra_it_says_how_to_install_it(mbc: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = mbc("serve")
    assert result.exit_code == 2
    assert "-e '.[serve]'" in result.stderr


@pytest.mark.parametrize(
    ("host", "prefix"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:"), ("localhost", "http://")]
)
def test_the_address_is_one_that_clients_take(host: str, prefix: str) -> None:
    try:
        listener = listen(host, 0)
    except ConfigError:
        pytest.skip(f"no {host} here")
    with listener:
        url = base_url(listener)
    assert url.startswith(prefix)
    assert url.endswith("/v1")
