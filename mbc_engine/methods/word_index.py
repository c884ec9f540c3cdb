"""BM25 over texts: finds them by the words of a question (Robertson and Zaragoza 2009; as Lucene, by bm25s)."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import bm25s
import numpy as np


class WordIndex:
    """An index of texts. Words of one letter and English stop words do not count.

    Args:
        texts: any number; those without words are never found.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        words = _words(texts)
        self._index = bm25s.BM25()
        self._has_words = any(words)  # bm25s makes no index of nothing
        if self._has_words:
            self._index.index(words, show_progress=False)

    def ranking(self, question: str) -> list[int]:
        """Places of the texts that share a word with a question, best first; of equals the first comes first."""
        (words,) = _words([question])
        if not words or not self._has_words:
            return []
        scores = self._index.get_scores(words)
        order = np.argsort(-scores, kind="stable")
        return [int(place) for place in order[: np.count_nonzero(scores > 0)]]

    def size_on_disk(self) -> int:
        """Bytes of the index as bm25s saves it, without the texts."""
        if not self._has_words:
            return 0
        with TemporaryDirectory() as folder:
            self._index.save(folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())


def _words(texts: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)
    return words
