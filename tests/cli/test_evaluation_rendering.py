"""A report on the terminal."""

import io
import re

import pytest
from rich.console import Console

from mbc_cli.render import evaluation
from mbc_cli.render import terminal as consoles
from mbc_engine.evaluation.report import build_report, cell_report
from mbc_engine.evaluation.results import Cost, Measurement, MethodResults, Prediction, QuestionScores
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.suite import Base, Dataset

ORIGIN = {"title": "t", "date": "", "command": "", "seed": 0, "environments": (), "settings": {}}


def predictions(right):
    return [
        Prediction(
            f"q{n}", n, f"Question {n}?", ("yes",), "yes" if n < right else "no", n < right, n < right, n < right, None
        )
        for n in range(60)
    ]


def results(right):
    share = right / 0.6
    mean = Interval(share, max(0, share - 10), share + 10)
    scores = QuestionScores(60, mean, mean, share, None, None)
    online = Measurement(scores, Cost(60, 0.25, 1.5, 12_345, None), predictions=predictions(right))

    def kept(documents, f1, retained, bytes_):
        found = QuestionScores(60, mean, Interval(f1, f1, f1), share, None, None)
        return Measurement(found, Cost(documents, 0.25, 1.5, 9, bytes_), retained=retained)

    return MethodResults(online=online, retention=(kept(100, 50.0, 100.0, 9), kept(200, 25.0, 50.0, 2_000)))


@pytest.fixture
def report():
    methods = {"mbc": results(20), "uniform": results(10), "mbc-shuffled-codes": results(20)}
    base = Base(name="tiny", title="Tiny \x1b[31mLM", model="tiny")
    dataset = Dataset(name="quiz", title="Quiz [b]", test="quiz.jsonl")
    return build_report(
        ORIGIN,
        [cell_report(base, dataset, methods, ["mbc", "mbc-shuffled-codes"])],
        missing=[{"cell": "tiny-quiz", "stage": "mac online", "reason": "needs\x1b 38 GB"}],
    )


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
    assert "33.3 (23.3 to 43.3)" in mbc
    assert "lenient match*" in text.getvalue() or width < 132
    assert "Retention of the first documents, in percent" in lines
    assert any(re.match(r"MBC +200 .* 25.0 \(25.0 to 25.0\) +50.0", line) for line in lines)


def test_report_is_sanitised(report, screen):
    text = screen(80)
    evaluation.print_report(report)
    assert "\x1b" not in text.getvalue()
    assert "tiny-quiz, mac online: needs␛ 38 GB" in text.getvalue()


def test_a_pipe_gets_every_column(report, capsys):
    evaluation.print_report(report)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("MBC\t33.3"))
    assert line.split("\t") == ["MBC", "33.3 (23.3 to 43.3)", "33.3 (23.3 to 43.3)", "33.3", "60"]
