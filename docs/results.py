"""`python docs/results.py RUN` puts the report of a run of `mbc eval --suite smollm2` into docs/results.md.

Everything above the marker is written by hand.
"""

import re
import sys
from pathlib import Path
from typing import Final

from mbc_engine.evaluation.markdown import write_report
from mbc_engine.evaluation.results import ExperimentFolder

PAGE: Final = Path(__file__).with_suffix(".md")
BEGIN: Final = "<!-- below: python docs/results.py -->\n"
# Only in the run's own report: what the first lines sum up, and repetitions.
LEFT_OUT: Final = re.compile(
    r"^(?:### (?:Time and memory|Paired tests)|## Environment \d+).*?(?=^##|\Z)", re.MULTILINE | re.DOTALL
)


def renew(run: Path, page: Path = PAGE) -> None:
    """Put a run's report, without title, settings and what is `LEFT_OUT`, and its figures below the page's marker."""
    by_hand, marker, _ = page.read_text(encoding="utf-8").partition(BEGIN)
    if not marker:
        raise SystemExit(f"{page} lacks the marker line: {BEGIN.strip()}")
    report = (run / "report.md").read_text(encoding="utf-8").partition("\n\n")[2].partition("\n## Settings\n")[0]
    figures = page.with_suffix("")
    figures.mkdir(exist_ok=True)
    for old in figures.glob("*.svg"):
        old.unlink()
    for name in re.findall(r"]\(figures/([^)]+)\)", report):
        (figures / name).write_bytes((run / "figures" / name).read_bytes())
    report = LEFT_OUT.sub("", report).strip().replace("](figures/", f"]({figures.name}/")
    page.write_text(f"{by_hand}{BEGIN}\n{report}\n", encoding="utf-8")


if __name__ == "__main__":
    write_report(ExperimentFolder(Path(sys.argv[1])))
    renew(Path(sys.argv[1]))
