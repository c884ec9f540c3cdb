"""Files become documents, documents become sentences and chunks that fit an encoder."""

from mbc_engine.documents.chunks import chunk
from mbc_engine.documents.document import Document
from mbc_engine.documents.reader import Found, Skipped, find_files, read, read_files
from mbc_engine.documents.sentences import split_sentences

__all__ = ["Document", "Found", "Skipped", "chunk", "find_files", "read", "read_files", "split_sentences"]
