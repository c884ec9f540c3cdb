"""Benchmarks that no page is regenerated from often: they still run."""

from pathlib import Path

import pytest


def test_bank_sizes_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import bank

    few = bank.texts(9)
    monkeypatch.setattr(bank, "texts", lambda: few)
    bank.measure_size(tmp_path, 40)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(bank.LAYOUTS) + len(bank.WITH_TEXT) + 1
    assert not list(tmp_path.iterdir())
