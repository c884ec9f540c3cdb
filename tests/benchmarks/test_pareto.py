"""The table of bytes against answers: its rows, and what a language model's text takes."""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")

MEASURED = {
    "date": "2026-11-23",
    "chunks": 443,
    "paragraphs": 402,
    "options": "",
    "bytes": {"addresses": 27.0, "codes": 70.0, "zstd": 240.0, "plain": 700.0, "lm": 90.0, "sample": 40},
    "text": {"EM": 49.0, "F1": 61.0, "questions": 2439},
    "vectors": {"EM": 45.0, "F1": 57.0, "questions": 2439},
}


def test_rows_are_in_order_of_size_and_each_names_where_its_figures_are_from() -> None:
    import pareto

    found = [(row.size, row.exact_match, row.files, row.source) for row in pareto.rows(MEASURED)]
    here, paper = "measured here", "the paper, table 1, "
    assert found == [
        (13.5, 2.1, "no", paper + "DistilGPT2"),
        (27.0, None, "yes", ""),
        (27.0, 14.93, "no", paper + "LLaMA-2-7B"),
        (160.0, 49.0, "no", here),
        (310.0, 49.0, "no", here),
        (770.0, 49.0, "no", here),
        (1536, 45.0, "yes", here),
        (36864, 1.9, "no", paper + "DistilGPT2"),
        (393216, 13.33, "no", paper + "LLaMA-2-7B"),
    ]


def test_without_the_language_model_there_is_no_row_of_it() -> None:
    import pareto

    sizes = {name: size for name, size in MEASURED["bytes"].items() if name not in ("lm", "sample")}
    assert "`lm`" not in "\n".join(pareto.render_section(MEASURED | {"bytes": sizes}))
    assert "`lm` from 40 of them" in "\n".join(pareto.render_section(MEASURED))
