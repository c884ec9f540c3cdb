"""The formats that can be read, by file suffix.

To add a format, write a function from a `ByteStream` to contents or rows, and add a `Format` with it to `FORMATS`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import Content, Skipped
from mbc_engine.text.formats.books import read_epub
from mbc_engine.text.formats.cards import read_cards
from mbc_engine.text.formats.delimited import read_csv
from mbc_engine.text.formats.html import read_html
from mbc_engine.text.formats.mail import read_eml, read_mbox, read_msg
from mbc_engine.text.formats.markdown import read_markdown
from mbc_engine.text.formats.markup import read_code, read_org, read_roff, read_rst, read_tex, read_text
from mbc_engine.text.formats.nested import read_json, read_jsonl, read_notebook
from mbc_engine.text.formats.opendocument import read_odt
from mbc_engine.text.formats.pdf import read_pdf
from mbc_engine.text.formats.rows import Row
from mbc_engine.text.formats.rtf import read_rtf
from mbc_engine.text.formats.settings import read_ini, read_xml, read_yaml
from mbc_engine.text.formats.sheets import read_ods, read_xlsx
from mbc_engine.text.formats.slides import read_pptx
from mbc_engine.text.formats.subtitles import read_subtitles
from mbc_engine.text.formats.word import read_docx


@dataclass(frozen=True)
class Format:
    """How to read a kind of file."""

    name: str  # part of the digests, with the version: the same bytes are different texts in different formats
    # From bytes to contents, lazily. A part that cannot be read is `Skipped`, with its name as the source. Raises
    # UnreadableFile if the file, or the rest of it, cannot be read.
    read: Callable[[ByteStream], Iterator[Content | Row | Skipped]]
    suffixes: tuple[str, ...]
    may_be_compressed: bool = True
    # Raised when the same bytes are read as another text than before, so that an ingest reads such files again.
    version: int = 1

    @property
    def identity(self) -> str:
        """Its part of the digests."""
        return self.name if self.version == 1 else f"{self.name} {self.version}"


TEXT = Format("text", read_text, (".txt", ".text", ".log", ".bib"))
_CODE = (
    "py pyi js mjs cjs jsx ts tsx java kt kts scala groovy gradle c h cc cpp cxx hh hpp cs go rs rb php swift m pl pm r jl "
    "lua sh bash zsh fish ps1 bat cmd sql hs ml ex exs erl clj lisp el vim dart f90 pas vb asm s css scss less vue svelte "
    "tf proto graphql cmake mk nix zig nim sol tcl diff patch"
)
FORMATS = (
    TEXT,
    Format("markdown", read_markdown, (".md", ".markdown"), version=2),
    Format("html", read_html, (".html", ".htm", ".xhtml"), version=2),
    Format("pdf", read_pdf, (".pdf",), may_be_compressed=False, version=3),
    Format("docx", read_docx, (".docx", ".docm", ".dotx"), may_be_compressed=False, version=3),
    Format("pptx", read_pptx, (".pptx", ".pptm", ".ppsx", ".potx"), may_be_compressed=False),
    Format("odt", read_odt, (".odt", ".odp", ".ott"), may_be_compressed=False),
    Format("rtf", read_rtf, (".rtf",)),
    Format("epub", read_epub, (".epub",), may_be_compressed=False, version=2),
    Format("eml", read_eml, (".eml", ".mht", ".mhtml")),
    Format("mbox", read_mbox, (".mbox",)),
    Format("msg", read_msg, (".msg",)),
    Format("card", read_cards, (".vcf", ".vcard", ".ics")),
    Format("rst", read_rst, (".rst", ".rest")),
    Format("org", read_org, (".org",)),
    Format("roff", read_roff, (".man", ".mdoc", ".roff", ".troff")),
    Format("tex", read_tex, (".tex", ".ltx")),
    Format("code", read_code, tuple(f".{suffix}" for suffix in _CODE.split())),
    Format("subtitles", read_subtitles, (".srt", ".vtt")),
    # The same name: a row is the same document in either format.
    Format("row", read_jsonl, (".jsonl", ".ndjson")),
    Format("row", read_csv, (".csv", ".tsv", ".tab", ".psv")),
    Format("row", read_json, (".json", ".geojson", ".jsonc", ".json5", ".webmanifest")),
    Format("row", read_xlsx, (".xlsx", ".xlsm", ".xltx"), may_be_compressed=False),
    Format("row", read_ods, (".ods", ".ots"), may_be_compressed=False),
    Format("xml", read_xml, (".xml", ".rss", ".atom", ".opml", ".kml", ".gpx", ".plist")),
    # Their bytes are their text, as those of a text file; the sections differ.
    Format("text", read_yaml, (".yaml", ".yml")),
    Format("text", read_ini, (".toml", ".ini", ".cfg", ".conf", ".properties", ".env", ".desktop")),
    Format("notebook", read_notebook, (".ipynb",)),
)
SUFFIXES: Mapping[str, Format] = {suffix: format for format in FORMATS for suffix in format.suffixes}
