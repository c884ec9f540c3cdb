"""A report on the terminal."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mbc_cli.render import evaluation
from mbc_cli.render import terminal as consoles
from mbc_engine.evaluation.report import build_report
from tests.evaluation.conftest import ORIGIN, cell_of, predict, results_of, retention_of


@pytest.fixture
def report():
    methods = {name: results_of(predict(20, 60)) for name in ("mbc", "uniform", "mbc-shuffled-codes")}
    methods["mbc"] = replace(methods["mbc"], retention=retention_of(100, 50.0))
    cell = replace(cell_of(methods), base="Tiny \x1b[31mLM", dataset="Quiz [b]")
    return build_report(ORIGIN, [cell], [{"cell": "tiny-quiz", "stage": "mac online", "reason": "needs\x1b 38 GB"}])


@pytest.fixture
def screen(monkeypatch):
    """Makes a terminal of a given width; returns its contents."""

    def make(width):
        text = io.StringIO()
        console = Console(file=text, width=width, force_terminal=True, color_system=None, markup=False, emoji=False)
        monkeypatch.setattr(consoles, "out", console)
        monkeypatch.setattr(evaluation, "out", console)
        return text

    return make


@pytest.mark.parametrize("width", [80, 160])
def test_report_fits_the_terminal(report, screen, width):
    text = screen(width)
    evaluation.print_report(report)
    lines = text.getvalue().splitlines()
    assert lines[0].startswith("✗ The bank of MBC does not beat ")
    assert max(map(len, lines)) <= width
    assert any(line.startswith("Note. Figures from 60 questions.") for line in lines)
    mbc = next(line for line in lines if line.startswith("MBC  ") and "33.3" in line)
    assert "33.3 (31.3 to 35.3)" in mbc
    assert "lenient match*" in text.getvalue() or width < 132
    assert "Retention of the first documents, in percent" in lines
    assert any(re.match(r"MBC +200 .* 10.0 \(10.0 to 10.0\) +50.0", line) for line in lines)


def test_report_is_sanitised(report, screen):
    text = screen(80)
    evaluation.print_report(report)
    assert "\x1b" not in text.getvalue()
    assert "tiny-quiz, mac online: needs␛ 38 GB" in text.getvalue()


def test_a_pipe_gets_every_column(report, capsys):
    evaluation.print_report(report)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("MBC\t33.3"))
    assert line.split("\t") == ["MBC", "33.3 (31.3 to 35.3)", "33.3 (31.3 to 35.3)", "33.3", "60"]
