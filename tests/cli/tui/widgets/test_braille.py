"""Lines of braille dots."""

import numpy as np

from mbc_cli.tui.widgets.plot import trace


def test_a_point_is_one_dot():
    dots = [(0, 0, 0x01), (1, 0, 0x08), (0, 1, 0x02), (1, 2, 0x20), (0, 3, 0x40), (1, 3, 0x80)]
    for x, y, bit in dots:
        assert trace(np.array([float(x)]), np.array([float(y)]), 1, 1).tolist() == [[bit]]


def test_a_line_runs_through_all_cells_between_its_ends():
    level = trace(np.array([0.0, 5.0]), np.array([1.0, 1.0]), 1, 3)
    assert level.tolist() == [[0x12, 0x12, 0x12]]
    upright = trace(np.array([0.0, 0.0]), np.array([0.0, 7.0]), 2, 1)
    assert upright.tolist() == [[0x47], [0x47]]
    slanting = trace(np.array([0.0, 3.0]), np.array([0.0, 3.0]), 1, 2)
    assert slanting.tolist() == [[0x01 | 0x10, 0x04 | 0x80]]


def test_what_lies_outside_is_cut_off():
    assert not trace(np.array([-9.0, 9.0]), np.array([-5.0, -5.0]), 2, 2).any()
