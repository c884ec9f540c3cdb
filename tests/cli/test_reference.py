import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
BEGIN, END, renewed = REFERENCE["BEGIN"], REFERENCE["END"], REFERENCE["renewed"]


def test_page_is_up_to_date():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert renewed(page) == page, "run python docs/reference.py"
