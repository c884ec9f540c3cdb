"""Every code block of README and the pages works: typed in a shell, run, or read as the program would.

Each page is a test. Its reader starts in a home with a checkout and some files, banks, models and runs (`conftest.py`)
and goes through the page in order (`page.py`). Commands are real processes, forked from one that has loaded torch
(`warm.py`). New pages are found automatically and need nothing here as long as their commands work in that home. What
does not is listed below, with its reason.
"""

from functools import cache

import pytest

from tests.docs.markdown import PAGES, Block, Command, blocks, commands
from tests.docs.page import GOES_ON, LANGUAGES, MEANWHILE, Page, named, shows
from tests.docs.reader import Reader
from tests.needs import embedded_encoder

pytestmark = pytest.mark.slow

# Commands whose arguments are read by their own parsers, and no more: what the pattern begins, and why.
ONLY_PARSED = {
    r"python recipes/": "hours, and texts of which no checkout has a copy",
    r"python benchmarks/": "minutes to hours, and a quiet machine",
    r"mbc demo$": "4 s on each page; with `--keep` it is run",
    r"mbc eval --suite (small --run|smollm2 --base)": "hours",
    r"mbc eval --preset smollm2-135m": "trains for minutes",
    r"mbc eval --data newswire": "minutes",
    r"mbc train --preset \S+ --data squad:": "SQuAD is on the hub",
    r"(accelerate launch|torchrun) ": "several processes, and SQuAD; tests/training/test_processes.py trains so",
    r"mbc ingest .*--engine ray": "a cluster takes 20 s to start; tests/ingestion/test_ray_ingest.py ingests so",
    r"mbc calibrate --model runs/mine --data newswire": "minutes",
}
# Commands that are skipped.
NOT_TYPED = {
    r"python3 -m venv ": "setting up a checkout and testing it is what checks every commit",
    r"pytest\b": "the same",
    r"python docs/results\.py ": "a run of hours; tests/docs_figures/test_results_page.py does it with one of seconds",
}
# Blocks that a test of their own page checks.
ELSEWHERE = {
    ("docs/bank-format.md", "sql"): "tests/bank/test_format_document.py",
    ("docs/bank-format.md", "json"): "tests/bank/test_format_document.py",
    ("docs/bank-format.md", "text"): "tests/bank/test_format_document.py",
}


@pytest.mark.xdist_group("docs")  # one home, laid out once
@embedded_encoder
@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name)])
def test_what_a_page_says_can_be_done(name: str, reader: Reader) -> None:
    page = Page(reader, ONLY_PARSED, NOT_TYPED)
    for block in blocks(name):
        if (block.page, block.language) not in ELSEWHERE:
            page.follow(block)
    reader.end()


def test_every_block_has_a_language_that_something_executes() -> None:
    strange = [
        f"{block.place}: {block.language or 'no language, or indented'}"
        for block in _all_blocks()
        if block.language not in LANGUAGES and (block.page, block.language) not in ELSEWHERE
    ]
    assert not strange, "\n".join(strange)


@pytest.mark.parametrize("table", [ONLY_PARSED, NOT_TYPED, GOES_ON, MEANWHILE])
def test_every_exception_is_still_needed(table: dict[str, object]) -> None:
    unmet = [pattern for pattern in table if not any(named({pattern: True}, command) for command in _all_commands())]
    assert not unmet


def test_every_block_that_is_tested_elsewhere_is_there() -> None:
    assert set(ELSEWHERE) <= {(block.page, block.language) for block in _all_blocks()}


@pytest.mark.parametrize(
    ("shown", "printed", "is_shown"),
    [
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("a\n...", "a", True),
        ("...\na", "a", True),
        ("in ... s", "in 1.2 s", True),
        ("a", "a  \n\n", True),
        ("a", "a\nb", False),
        ("a\nb", "b\na", False),
        ("...b", "a", False),
    ],
)
def test_dots_stand_for_anything(shown: str, printed: str, is_shown: bool) -> None:
    assert shows(shown, printed) is is_shown


def test_commands_are_distinguished_from_their_output() -> None:
    console = "$ mbc ask 'Who\nwon?' \\\n    --json   # a comment\n{\"answer\": 1}\n$ mbc bank info\n"
    assert commands(Block("page.md", 1, "console", console)) == [
        Command("mbc ask 'Who\nwon?' \\\n    --json   # a comment", '{"answer": 1}'),
        Command("mbc bank info", None),
    ]


@cache
def _all_blocks() -> list[Block]:
    return [block for name in PAGES for block in blocks(name)]


@cache
def _all_commands() -> list[Command]:
    return [command for block in _all_blocks() if block.language in ("bash", "console") for command in commands(block)]
