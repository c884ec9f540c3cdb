"""Reads files into documents, and splits these into sentences and chunks that fit an encoder."""

from mbc_engine.text.chunks import Chunk, chunk, split_sentences
from mbc_engine.text.decoding import without_piece_number
from mbc_engine.text.document import Document, Skipped, printable_path
from mbc_engine.text.file_reader import Part, read_file, read_parts, read_stream
from mbc_engine.text.walk import (
    HIDDEN,
    IGNORE_FILE,
    IGNORE_FILES,
    WalkResult,
    find_files,
    ignore_path,
    is_empty,
    require_paths,
)
