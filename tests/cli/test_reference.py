import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
BEGIN, END, renewed = REFERENCE["BEGIN"], REFERENCE["END"], REFERENCE["renewed"]


def test_page_is_up_to_date():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert renewed(page) == page, "run python docs/reference.py"


def test_text_around_the_reference_stays():
    page = renewed(f"before\n{BEGIN}old{END}\nafter")
    assert page.startswith(f"before\n{BEGIN}\n\n## All commands")
    assert page.endswith(f"|\n\n{END}\nafter")
    assert "| `mbc ingest PATH ...` | Memorise files and folders. | `--bank`" in page
