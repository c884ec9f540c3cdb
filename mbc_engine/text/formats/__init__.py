"""The formats that can be read, by file suffix.

To add a format, write a function from a `ByteStream` to contents or rows, and add a `Format` with it to `FORMATS`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mbc_engine.text.decoding import ByteStream
    from mbc_engine.text.document import Content, Skipped
    from mbc_engine.text.formats.rows import Row


@dataclass(frozen=True)
class Format:
    """How to read a kind of file."""

    name: str  # part of the digests, with the version: the same bytes are different texts in different formats
    reader: str  # a module here and its function, imported at the first file of this kind
    suffixes: tuple[str, ...]
    may_be_compressed: bool = True
    may_be_form: bool = False  # whether a table that is about one thing may be one text
    # Raised when the same bytes are read as another text than before, so that an ingest reads such files again.
    version: int = 1

    @property
    def identity(self) -> str:
        """Its part of the digests."""
        return self.name if self.version == 1 else f"{self.name} {self.version}"

    def read(self, file: "ByteStream", *, by_row: bool = False) -> "Iterator[Content | Row | Skipped]":
        """Contents of bytes, lazily; a part that cannot be read is `Skipped`, with its name as the source.

        With `by_row`, each row of a table is a text of its own. Raises UnreadableFile if the file, or the rest of it,
        cannot be read.
        """
        module, _, function = self.reader.partition(".")
        read = getattr(import_module(f"{__name__}.{module}"), function)
        contents: Iterator[Content | Row | Skipped] = read(file, by_row=by_row) if self.may_be_form else read(file)
        return contents


TEXT = Format("text", "markup.read_text", (".txt", ".text", ".log"))
_CODE = (
    "py pyi js mjs cjs jsx ts tsx java kt kts scala groovy gradle c h cc cpp cxx hh hpp cs go rs rb php swift m pl pm r jl "
    "lua sh bash zsh fish ps1 bat cmd sql hs ml ex exs erl clj lisp el vim dart f90 pas vb asm s css scss less vue svelte "
    "tf proto graphql cmake mk nix zig nim sol tcl diff patch"
)
FORMATS = (
    TEXT,
    Format("markdown", "markdown.read_markdown", (".md", ".markdown"), version=5),
    Format("html", "html.read_html", (".html", ".htm", ".xhtml"), version=4),
    Format("pdf", "pdf.read_pdf", (".pdf",), may_be_compressed=False, version=5),
    Format("docx", "word.read_docx", (".docx", ".docm", ".dotx"), may_be_compressed=False, version=5),
    Format("pptx", "slides.read_pptx", (".pptx", ".pptm", ".ppsx", ".potx"), may_be_compressed=False, version=2),
    Format("odt", "opendocument.read_odt", (".odt", ".odp", ".ott"), may_be_compressed=False, version=2),
    Format("rtf", "rtf.read_rtf", (".rtf",), version=3),
    Format("epub", "books.read_epub", (".epub",), may_be_compressed=False, version=4),
    Format("eml", "mail.read_eml", (".eml", ".emlx", ".mht", ".mhtml"), version=2),
    Format("mbox", "mail.read_mbox", (".mbox",)),
    Format("msg", "mail.read_msg", (".msg",)),
    Format("card", "cards.read_cards", (".vcf", ".vcard", ".ics")),
    Format("rst", "markup.read_rst", (".rst", ".rest")),
    Format("org", "markup.read_org", (".org",), version=2),
    Format("asciidoc", "markup.read_asciidoc", (".adoc", ".asciidoc")),
    Format("wiki", "markup.read_wiki", (".wiki", ".mediawiki")),
    Format("roff", "roff.read_roff", (".man", ".mdoc", ".roff", ".troff"), version=2),
    Format("tex", "latex.read_tex", (".tex", ".ltx"), version=5),
    Format("bibtex", "bibtex.read_bibtex", (".bib",)),
    Format("code", "markup.read_code", tuple(f".{suffix}" for suffix in _CODE.split()), version=2),
    Format("subtitles", "subtitles.read_subtitles", (".srt", ".vtt"), version=3),
    # The same name: a row is the same document in either format.
    Format("row", "nested.read_jsonl", (".jsonl", ".ndjson")),
    Format("row", "delimited.read_csv", (".csv", ".tsv", ".tab", ".psv"), may_be_form=True),
    Format("row", "nested.read_json", (".json", ".canvas", ".geojson", ".jsonc", ".json5", ".webmanifest")),
    Format("row", "sheets.read_xlsx", (".xlsx", ".xlsm", ".xltx"), may_be_compressed=False, may_be_form=True),
    Format("row", "sheets.read_ods", (".ods", ".ots"), may_be_compressed=False, may_be_form=True),
    Format("row", "statements.read_qif", (".qif",)),
    Format("row", "statements.read_ofx", (".ofx", ".qfx")),
    Format("row", "statements.read_mt940", (".sta", ".mt940", ".940")),
    Format("xml", "settings.read_xml", (".xml", ".rss", ".atom", ".opml", ".kml", ".gpx", ".tcx", ".enex", ".plist")),
    # Their bytes are their text, as those of a text file; the sections differ.
    Format("text", "settings.read_yaml", (".yaml", ".yml")),
    Format("text", "settings.read_ini", (".toml", ".ini", ".cfg", ".conf", ".properties", ".env", ".desktop")),
    Format("notebook", "nested.read_notebook", (".ipynb",)),
)
SUFFIXES: Mapping[str, Format] = {suffix: format for format in FORMATS for suffix in format.suffixes}
