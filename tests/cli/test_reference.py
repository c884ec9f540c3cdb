import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
BEGIN, END, renewed = REFERENCE["BEGIN"], REFERENCE["END"], REFERENCE["renewed"]


def test_the_page_says_what_the_commands_say():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert renewed(page) == page, "python docs/reference.py writes it anew"


def test_what_stands_around_it_stays():
    page = renewed(f"before\n{BEGIN}old{END}\nafter")
    assert page.startswith(f"before\n{BEGIN}\n\n## Options")
    assert page.endswith(f"```\n{END}\nafter")
    assert "## `mbc ingest PATH ...`" in page
    assert "newswire:train:5000" in page
