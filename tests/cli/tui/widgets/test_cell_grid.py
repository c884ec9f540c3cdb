"""Cells side by side: every one has a place, and labels are whole."""

from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.heat_map import CellGrid


def test_a_codebook_is_in_sight_on_a_small_terminal() -> None:
    assert CellGrid.numbered(512, 76, most_rows=10) == CellGrid(width=1, columns=64, rows=8, label=4)


def test_cells_are_wide_where_there_is_room() -> None:
    assert CellGrid.numbered(512, 76, most_rows=16) == CellGrid(width=2, columns=32, rows=16, label=4)


def test_rows_that_mean_something_are_whole_or_not_there() -> None:
    names = ["level 1", "level 2"]
    assert CellGrid.labelled(24, 32, names) == CellGrid(2, 12, 2, 8, names)
    assert CellGrid.labelled(24, 31, names) == CellGrid(1, 12, 2, 8, names)
    assert CellGrid.labelled(24, 19, names) is None


@given(st.integers(1, 70_000), st.integers(1, 300), st.integers(1, 60))
def test_every_cell_has_a_place_of_its_own(cells: int, width: int, most_rows: int) -> None:
    grid = CellGrid.numbered(cells, width, most_rows)
    assert grid.rows == grid.row(cells - 1) + 1
    for cell in {0, cells // 2, cells - 1}:
        x = grid.label + cell % grid.columns * grid.width
        for within in range(grid.width):
            assert grid.cell(x + within, grid.row(cell)) == cell
    assert grid.cell(grid.label - 1, 0) is None
    assert grid.cell(grid.label + grid.columns * grid.width, 0) is None
    assert len(grid.name(grid.rows - 1)) == grid.label
