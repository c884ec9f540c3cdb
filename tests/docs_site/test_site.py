"""The documentation site: it builds without warnings, fetches nothing from other hosts, and has no broken links."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

import mbc_engine
from mbc_engine import events

pytest.importorskip("material", reason="the extra dev is not installed")
pytest.importorskip("mkdocstrings_handlers.python", reason="the extra dev is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs_site")]

ROOT = Path(__file__).parents[2]
HOST = "https://site.invalid/"
# What a browser fetches by itself: element -> attribute. Of links in the head, all but those that only say where this page is.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "embed": "src",
}
NAMING = {"canonical", "next", "prev"}


@dataclass
class Page(HTMLParser):
    """What a page fetches, where it leads, and its anchors."""

    fetched: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        its = {name: value or "" for name, value in attrs}
        self.anchors |= {its[name] for name in ("id", "name") if name in its}
        self.fetched += re.findall(r"url\(\s*['\"]?([^'\")]+)", its.get("style", ""))
        if tag == "link" and not NAMING & set(its.get("rel", "").split()):
            self.fetched.append(its["href"])
        if FETCHED.get(tag) in its:
            self.fetched.append(its[FETCHED[tag]])
        if tag == "a" and "href" in its:
            self.links.append(its["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as strictly as mkdocs can."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """The pages by their addresses."""
    return {HOST + path.relative_to(site).as_posix(): parsed(path) for path in site.rglob("*.html")}


def parsed(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def is_outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def test_pages_fetch_nothing_from_other_hosts(pages: dict[str, Page]) -> None:
    assert len(pages) > 20
    assert {(page, address) for page, its in pages.items() for address in its.fetched if is_outside(address)} == set()


def test_style_sheets_fetch_nothing_from_other_hosts(site: Path) -> None:
    sheets = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    found = [
        (path.name, address)
        for path, text in sheets.items()
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)
        if is_outside("".join(address))
    ]
    assert sheets
    assert found == []


def test_what_pages_fetch_and_link_to_is_there(site: Path, pages: dict[str, Page]) -> None:
    assert sorted(set(_missing(site, pages))) == []


def _missing(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    for address, page in pages.items():
        for link in [*page.fetched, *page.links]:
            target = urlsplit(urljoin(address, link))
            if f"{target.scheme}://{target.netloc}/" != HOST:
                continue
            path = unquote(target.path).lstrip("/")
            file = path + "index.html" if path.endswith("/") or not path else path
            if not (site / file).is_file():
                yield f"{address} -> {link}: no file"
                continue
            others = pages.get(HOST + file)
            if target.fragment and others and unquote(target.fragment) not in others.anchors:
                yield f"{address} -> {link}: no anchor"


def test_the_api_has_every_public_name(pages: dict[str, Page]) -> None:
    names = set(mbc_engine.__all__) - {"__version__", "Event", "MBCError"}  # these two are with their own
    kinds = {kind.__name__ for kind in events.Event.__subclasses__() if kind.__module__ == events.__name__}
    wanted = {*(f"mbc_engine.{name}" for name in names), *(f"mbc_engine.events.{kind}" for kind in kinds)}
    wanted |= {f"mbc_engine.MemoryBank.{name}" for name in ("open", "totals", "documents", "remove", "snapshot")}
    assert sorted(wanted - pages[f"{HOST}api/index.html"].anchors) == []


def test_files_outside_docs_keep_their_places(site: Path) -> None:
    assert "<h1" in (site / "CHANGELOG" / "index.html").read_text(encoding="utf-8")
    assert "<h1" in (site / "recipes" / "mini" / "index.html").read_text(encoding="utf-8")
    assert (site / "examples" / "remember.py").read_bytes() == (ROOT / "examples" / "remember.py").read_bytes()


def test_the_search_index_is_part_of_the_site(site: Path) -> None:
    assert "codebook" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
