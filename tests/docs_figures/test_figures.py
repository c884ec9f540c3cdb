"""The figures of docs/how-it-works.md: they exist, are light and self-contained, and can be drawn again."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.needs import embedded_encoder

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
PAGE = (FIGURES.parent / "how-it-works.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"\]\(figures/(\S+)\.svg\)", PAGE)

drawing = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


def is_light_and_self_contained(figure: Path) -> bool:
    drawn = figure.read_text(encoding="utf-8")
    outside = re.findall(r"<script|@import|(?:href|src)=\"(?!#|data:)|url\((?!#)", drawn)
    return len(drawn) < 80_000 and not outside


def test_the_page_shows_each_figure_once() -> None:
    assert sorted(SHOWN) == sorted(figure.stem for figure in FIGURES.glob("*.svg"))


@pytest.mark.parametrize("name", SHOWN)
def test_a_figure_is_light_and_self_contained_and_its_command_is_shown(name: str) -> None:
    assert is_light_and_self_contained(FIGURES / f"{name}.svg")
    assert f"`python docs/figures/draw.py --only {name}`" in PAGE


@drawing
def test_every_figure_has_a_command() -> None:
    import draw

    assert sorted(draw.FIGURES) == sorted(SHOWN)


@drawing
def test_both_reads_agree_and_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import draw
    import flat_read

    monkeypatch.setitem(draw.FIGURES, "flat-read", lambda: flat_read.draw((1, 3)))
    draw.main(["--only", "flat-read", "--folder", str(tmp_path)])
    assert is_light_and_self_contained(tmp_path / "flat-read.svg")
    compared = flat_read.compare(3)
    assert compared.rows[0] <= compared.rows[1] == 36
    assert compared.difference < 1e-5
    assert compared.change > 0.1


@drawing
@embedded_encoder
def test_what_is_drawn_of_mini_is_what_it_does() -> None:
    import routing
    import way_in
    from example import as_text, make_example

    demo = make_example(2)
    assert routing.scores(demo).max(1).tolist() == [0.0] * len(demo.questions)
    kept = way_in.kept_of(make_example(1))
    assert kept.bits.shape == (9, 24)
    assert [int("".join(map(str, column)), 2) for column in kept.bits.T] == kept.codes
    assert kept.codes == demo.model.memorise([as_text(demo.stories[0])])[0, :, 0].tolist()
    assert (kept.code_bytes, kept.size) == (27, len(as_text(demo.stories[0]).encode()))
    assert 0 < kept.text_bytes < kept.size


@drawing
@embedded_encoder
def test_usage_is_followed_along_a_training(tmp_path: Path) -> None:
    import collapse

    small = ("training.epochs=1", "training.batch_size=4", "model.documents.window=32", "model.codebook.codes=8")
    curve = collapse.perplexities(tmp_path, 2, (*collapse.CHANGES, *small), resets=True)
    assert len(curve) > 1
    assert all(1 <= codes <= 8 for codes in curve)
