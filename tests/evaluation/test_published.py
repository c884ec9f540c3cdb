import re
from pathlib import Path

import pytest

from mbc_engine.evaluation.methods import METHODS, published, published_scores, published_usage

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "mbc-paper.tex"
BASES = ("distilgpt2", "gpt2-large", "gpt2-xl", "llama2-7b")
DATASETS = ("streamingqa", "squad", "archivalqa")
NUMBER = r"\d+(?:\.\d+)?"


@pytest.fixture
def paper():
    if not PAPER.is_file():
        pytest.skip("the paper's source does not lie beside the project")
    return PAPER.read_text(encoding="utf-8")


def between(text, begin, end):
    start = text.index(begin)
    return text[start : text.index(end, start)]


def test_scores_are_those_of_table_1(paper):
    """Bold scores are followed by their gain over MAC, the others stand alone."""
    table = between(paper, r"\label{tab:mbc_results}", r"\end{NiceTabular}")
    titles = {"Uniform": "uniform", "Salient Spans": "salient-spans", "CaMeLS": "camels", "MAC": "mac", "MBC": "mbc"}
    printed, base = {}, -1
    for row in table.split(r"\\" + "\n"):
        base += r"\Block{" in row
        for title, method in titles.items():
            cells = re.split(rf"& +(?:\\textbf{{)?{re.escape(title)}", row)
            if len(cells) != 2:
                continue
            numbers = [match[0] for match in re.finditer(rf"{NUMBER}|N/A", re.sub(r"\\gain{.*?}{.*?}", "", cells[1]))]
            for index, dataset in enumerate(DATASETS):
                exact_match, f1 = numbers[2 * index : 2 * index + 2]
                if exact_match != "N/A":
                    printed[BASES[base], dataset, method] = [float(exact_match), float(f1)]
    assert len(printed) == 4 * 5 * 3 - 3
    reported = {
        (base, dataset, method): pair
        for base, datasets in published()["answers"].items()
        for dataset, methods in datasets.items()
        for method, pair in methods.items()
    }
    assert reported == printed


def test_sizes_and_retention_are_those_of_table_3(paper):
    table = between(paper, r"\caption{Memory bank size (MB)", r"\label{tab:retention}")
    rows = [[float(number) for number in re.findall(NUMBER, row)] for row in table.splitlines() if " & " in row]
    rows = [row for row in rows if len(row) == 1 + 6 * 2 * 2]
    assert len(rows) == 16
    for place, base in enumerate(BASES):
        for column, dataset in enumerate(DATASETS):
            for second, method in enumerate(("mac", "mbc")):
                steps = published_scores(base, dataset, method)["retention"]
                first = 1 + 2 * (6 * (place % 2) + 2 * column + second)
                for row, step in zip(rows[8 * (place // 2) :][:8], steps, strict=True):
                    assert row[0] == step["documents"]
                    assert row[first] == pytest.approx(step["bank_bytes"] / 1024**2)
                    assert row[first + 1] == step["retention"]


def test_perplexities_are_told_in_section_4_4_4(paper):
    section = paper[paper.index("With resetting, effective code usage") :]
    for base in BASES:
        usage = published_usage(base, "streamingqa")
        for value in (*usage["with_reset"], usage["without_reset"]):
            assert re.search(rf"\b{value}\b", section)


def test_every_method_is_one_that_can_be_evaluated():
    for datasets in published()["answers"].values():
        for methods in datasets.values():
            assert set(methods) <= METHODS.keys()
    assert published_scores("nobody", "squad", "mbc") is None
    assert published_scores("documents", "squad", "mbc") is None
