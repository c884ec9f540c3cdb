"""The fuzzer reads every format and finds nothing."""

from pathlib import Path

import fuzz
import pytest
from fuzz_targets import CANARY, READ, REFUSED, targets

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [target.name for target in targets(Path("canary"))])
def test_damaged_files(tmp_path, rounds, name):
    (tmp_path / "canary").write_text(CANARY)
    target = next(target for target in targets(tmp_path / "canary") if target.name == name)
    max_files = rounds(full=2000, reduced=15)
    tally = fuzz.fuzz(target, 7, tmp_path, max_files=max_files)
    assert tally.findings == {}
    assert tally.outcomes[READ] or name == "export"  # in which almost any damage is noticed
    assert tally.outcomes[READ] + tally.outcomes[REFUSED] == max_files
