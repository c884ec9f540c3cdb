"""What a base LM answers without a memory: from its weights, or from a passage put before the question."""

from collections.abc import Sequence
from typing import Final

from mbc_engine.model.base import BaseLM
from mbc_engine.model.chunker import Chunker
from mbc_engine.model.padded_batches import padded_batches

MAX_NEW_TOKENS: Final = 16
QUESTION_WINDOW: Final = 128  # as `BaseLM.generate`
# Characters of a batch, padding included: 32 short questions, or eight of them after passages of a thousand tokens.
_CHARACTERS: Final = 32_768


def answers(
    base: BaseLM, questions: Sequence[str], passages: Sequence[str] | None = None, *, batch_size: int = 32
) -> list[str]:
    """Greedy answers of at most `MAX_NEW_TOKENS` tokens.

    Args:
        base: what answers.
        questions: any number, in any order.
        passages: what is read before each question (see `BaseLM.generate`); None reads nothing.
        batch_size: most questions at a time.
    """
    read = [""] * len(questions) if passages is None else passages
    lengths = [len(question) + len(passage) for question, passage in zip(questions, read, strict=True)]
    found = [""] * len(questions)
    for batch in padded_batches(lengths, size=batch_size, longest=_CHARACTERS):
        said = base.generate(
            base.no_prefix(len(batch)),
            [questions[index] for index in batch],
            passages=[read[index] for index in batch],
            max_new_tokens=MAX_NEW_TOKENS,
        )
        for index, answer in zip(batch, said, strict=True):
            found[index] = answer
    return found


def passage_chunker(base: BaseLM) -> Chunker:
    """Cuts documents to what the context has room for beside a question and its answer, or to half of a small one."""
    room = base.context - QUESTION_WINDOW - MAX_NEW_TOKENS
    return Chunker(base.tokenizer.backend_tokenizer, max(room, base.context // 2))
