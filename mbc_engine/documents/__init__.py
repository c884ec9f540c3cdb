"""Files become documents, documents become sentences and chunks that fit an encoder."""

from mbc_engine.documents.chunks import Chunk, chunk
from mbc_engine.documents.document import Document, Skipped
from mbc_engine.documents.ignore import IGNORE_FILE, Rule, ignore_path
from mbc_engine.documents.reader import Part, find_text_column, read_document, read_file, read_stream, reread_file
from mbc_engine.documents.sentences import split_sentences
from mbc_engine.documents.unreadable import shown
from mbc_engine.documents.walk import Found, find_files, is_empty, require_paths

__all__ = [
    "IGNORE_FILE",
    "Chunk",
    "Document",
    "Found",
    "Part",
    "Rule",
    "Skipped",
    "chunk",
    "find_files",
    "find_text_column",
    "ignore_path",
    "is_empty",
    "read_document",
    "read_file",
    "read_stream",
    "require_paths",
    "reread_file",
    "shown",
    "split_sentences",
]
