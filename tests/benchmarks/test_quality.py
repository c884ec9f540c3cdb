"""The quality page's own measures, by hand."""

from importlib.util import find_spec

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("matplotlib", "Stemmer"))), reason="the extra report is not installed"
)


def test_calibration_by_hand():
    import quality_written as written

    sure, right = np.array([0.95, 0.91, 0.55, 0.15]), np.array([True, True, False, True])
    # Off by 1.86 - 2, 0.55 - 0 and 0.15 - 1.
    assert written.calibration_error(sure, right) == pytest.approx((0.14 + 0.55 + 0.85) / 4)
    assert written.area_under_curve(sure, right) == pytest.approx(2 / 3)
    assert written.area_under_curve(sure, np.ones(4, bool)) is None
    answered, shares = written.precision_curve(sure, right)
    assert answered.tolist() == [0.25, 0.5, 0.75, 1]
    assert shares.tolist() == pytest.approx([1, 1, 2 / 3, 3 / 4])
