"""An mkdocs hook that adds files outside docs/ to the site if pages link to them.

So a link such as `../CHANGELOG.md` works both in the repository and on the site. Markdown becomes a page, anything else
a file. Both keep their path in the repository: in mkdocs' terms their source is `../PATH`, and they are written to
`PATH`.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?=[)#])")
_OUTSIDE = "../"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, and those that the added pages link to in turn."""
    pages = list(files.documentation_pages())
    for page in pages:
        for path in _links(page):
            if _is_outside(path, config) and Path(config.docs_dir, path).is_file() and path not in files.src_uris:
                file = _brought_in(path, config)
                files.append(file)
                if file.is_documentation_page():
                    pages.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Point links from outside pages back into docs/, which mkdocs only knows as `/`."""
    if not page.file.src_uri.startswith(_OUTSIDE):
        return markdown
    docs = _docs(config)

    def inside(link: re.Match[str]) -> str:
        path = _resolved(page.file, link["path"])
        return f"/{path.removeprefix(docs)}" if path.startswith(docs) else link["path"]

    return _LINK.sub(inside, markdown)


def _links(page: File) -> list[str]:
    """The targets of a page's links, relative to docs/."""
    return [_resolved(page, link["path"]) for link in _LINK.finditer(page.content_string)]


def _is_outside(path: str, config: MkDocsConfig) -> bool:
    return path.startswith(_OUTSIDE) and not path.startswith(_docs(config))


def _docs(config: MkDocsConfig) -> str:
    """The path of docs/ as seen from outside pages."""
    return f"{_OUTSIDE}{Path(config.docs_dir).name}/"


def _resolved(page: File, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page.src_uri), path))


def _brought_in(path: str, config: MkDocsConfig) -> File:
    """The file at a path relative to docs/, written to its path in the repository."""
    place = (config.docs_dir, config.site_dir, config.use_directory_urls)
    target = File(path.removeprefix(_OUTSIDE), *place).dest_uri
    return File(path, *place, dest_uri=target, inclusion=InclusionLevel.INCLUDED)
