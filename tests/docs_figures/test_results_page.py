"""docs/results.py: the report of a run below what is written by hand."""

import runpy
from pathlib import Path

renew = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "results.py"))["renew"]
REPORT = """# A suite

- ✓ **It helps**.

## A cell

![Figure](figures/cell-f1.svg)

## Environment

- cores: 2

## Settings

- seed: 0
"""


def test_the_report_replaces_what_is_below_the_marker(tmp_path: Path) -> None:
    page, run = tmp_path / "results.md", tmp_path / "run"
    for folder in (run / "figures", tmp_path / "results"):
        folder.mkdir(parents=True)
    (run / "report.md").write_text(REPORT, encoding="utf-8")
    (run / "figures" / "cell-f1.svg").write_text("<svg/>")
    (tmp_path / "results" / "old.svg").write_text("<svg/>")
    page.write_text("# Results\n\n![By hand](figures/way-in.svg)\n\n<!-- below: python docs/results.py -->\n\nOld.\n")
    renew(run, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(
        "# Results\n\n![By hand](figures/way-in.svg)\n\n<!-- below: python docs/results.py -->\n\n- ✓ **It helps**.\n"
    )
    assert text.endswith("![Figure](results/cell-f1.svg)\n\n## Environment\n\n- cores: 2\n")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["cell-f1.svg"]
    renew(run, page)
    assert page.read_text(encoding="utf-8") == text
