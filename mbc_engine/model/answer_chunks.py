"""Training examples whose documents are too long for whoever reads them: the chunk with the answer stands for each."""

from collections.abc import Sequence
from dataclasses import replace

from mbc_engine.datasets.example import QAExample
from mbc_engine.metrics import shortest
from mbc_engine.model.chunker import Chunker


def within_window(examples: Sequence[QAExample], chunker: Chunker) -> list[QAExample]:
    """The examples with documents that fit; a longer one gives way to its chunk with the answer.

    Where no chunk holds the shortest answer literally, the first one stands.

    Args:
        examples: any number.
        chunker: cuts documents as they are cut where no answer is known.
    """
    chunks: dict[str, list[str]] = {}
    texts = list(dict.fromkeys(example.text for example in examples))
    for text, count in zip(texts, chunker.token_counts(texts), strict=True):
        if count > chunker.capacity:
            chunks[text] = chunker(text)

    def fitting(example: QAExample) -> QAExample:
        pieces = chunks.get(example.text)
        if pieces is None:
            return example
        answer = shortest(example.answers)
        return replace(example, text=next((piece for piece in pieces if answer in piece), pieces[0]))

    return [fitting(example) for example in examples]
