"""The page in a real browser; skipped where there is no Chromium. CHROMIUM names the program to use."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbc_engine.evaluation.page import write_report

playwright = pytest.importorskip("playwright.async_api")
pytestmark = pytest.mark.slow


def chromium() -> str | None:
    """A Chromium to open the page in: what CHROMIUM names, one of the system, or playwright's own."""
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
    )
    if found:
        return found
    own = Path.home() / ".cache" / "ms-playwright"
    return next((str(path) for path in sorted(own.glob("chromium*/chrome-*/*")) if path.name in _PROGRAMS), None)


_PROGRAMS = ("chrome", "headless_shell", "chrome-headless-shell")
# The page is written by a test, and containers have no sandbox.
_ARGUMENTS = ("--headless=shell", "--no-sandbox", "--no-zygote", "--disable-gpu")


@pytest.fixture
async def open_page(make_experiment) -> Iterator:
    """Opens the page of an experiment; at the end, there must have been no network request and no error."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium; CHROMIUM may name one")
    complaints = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=_ARGUMENTS)

        async def opened(path: Path | None = None, *, width: int = 1400, **experiment):
            path = path or write_report(make_experiment(**experiment))
            page = await browser.new_page(viewport={"width": width, "height": 900})
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    request.url == path.as_uri() or request.url.startswith("data:") or complaints.append(request.url)
                ),
            )
            await page.goto(path.as_uri())
            return page

        yield opened
        await browser.close()
    assert complaints == []


async def shown(opened) -> list[str]:
    return await opened.locator("#list .question").all_inner_texts()


async def test_questions_are_paged_by_fifty(open_page):
    opened = await open_page()
    assert (await shown(opened))[0] == "What is number 0?"
    assert len(await shown(opened)) == 50
    await opened.click("#next")
    await opened.click("#next")
    assert (await shown(opened))[0] == "What is number 100?"
    assert await opened.inner_text("#place") == "101 to 120"
    assert await opened.is_disabled("#next")
    await opened.click("#previous")
    assert (await shown(opened))[0] == "What is number 50?"


async def test_filters_compare_methods(open_page):
    opened = await open_page()
    assert await opened.inner_text("#count") == "120 of 120 questions"
    await opened.select_option("#filter", "wrong")
    assert await opened.inner_text("#count") == "60 of 120 questions"
    await opened.select_option("#other", label="Uniform")
    await opened.select_option("#filter", "won")
    assert await opened.inner_text("#count") == "57 of 120 questions"
    assert (await shown(opened))[0] == "What is number 3?"
    first = opened.locator("#list li").first
    assert "remembered 3" in await first.inner_text()
    assert "own document ranked 2" in await first.inner_text()
    assert "tuned 3" in await first.inner_text()
    await opened.select_option("#method", label="Uniform")
    await opened.select_option("#other", label="MBC")
    await opened.select_option("#filter", "lost")
    assert await opened.inner_text("#count") == "57 of 120 questions"
    # Without another method there is nothing to be right beside.
    await opened.select_option("#other", label="nothing")
    assert await opened.input_value("#filter") == "all"


async def test_the_search_looks_into_questions_and_answers(open_page):
    opened = await open_page()
    await opened.fill("#search", "NUMBER 11")
    assert await opened.inner_text("#count") == "11 of 120 questions"  # 11 and 110 to 119
    await opened.fill("#search", "remembered 7 gold")
    assert (await shown(opened))[0] == "What is number 7?"
    await opened.fill("#search", "nowhere")
    assert await shown(opened) == []
    assert await opened.inner_text("#place") == "none"


async def test_a_heading_sorts_its_column_and_back(open_page):
    opened = await open_page()
    methods = opened.locator("#cell-0 table").first.locator("tbody th")
    heading = opened.locator("#cell-0 table").first.locator("th button", has_text="source first")
    assert await methods.all_inner_texts() == ["MBC", "Uniform", "Closed book", "MBC, empty bank"]
    exact_match = opened.locator("#cell-0 table").first.locator("th button").nth(1)
    await exact_match.click()
    assert await methods.all_inner_texts() == ["MBC", "Closed book", "Uniform", "MBC, empty bank"]
    await exact_match.click()
    assert await methods.all_inner_texts() == ["MBC, empty bank", "Uniform", "Closed book", "MBC"]
    await heading.click()
    assert (await methods.all_inner_texts())[0] == "MBC"  # those without a figure stay last


@pytest.mark.parametrize("width", [400, 1400])
async def test_nothing_is_wider_than_the_window(open_page, width):
    opened = await open_page(width=width)
    await opened.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert await opened.evaluate("document.documentElement.scrollWidth") == width


async def test_text_from_outside_does_nothing(open_page):
    opened = await open_page(title="</title><script>document.title = 'hurt'</script><img src=x onerror=alert(1)>")
    assert (await opened.title()).startswith("</title><script>")
    assert await opened.locator("img[src=x]").count() == 0
