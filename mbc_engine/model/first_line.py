"""An answer is the first line with text of what a base LM says: where it ends, and how it comes out piece by piece.

Empty lines before it are passed over. Only a line feed ends it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, StoppingCriteria, TextStreamer

# To the space: a tokenizer that tidies would change text that has already been said.
DECODING: dict[str, Any] = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


def first_line(text: str) -> str:
    """The first line with text, without the spaces around it."""
    return text.strip().partition("\n")[0].rstrip()


class FirstLineEnd(StoppingCriteria):
    """Ends each row of a batch with its own first line.

    Args:
        tokenizer: of the base LM.
        start: the column of the first generated token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, start: int) -> None:
        self.tokenizer, self.start = tokenizer, start

    def __call__(self, input_ids: Tensor, scores: object, **others: object) -> Tensor:
        """Which rows [B, S] have ended, [B]."""
        texts = self.tokenizer.batch_decode(input_ids[:, self.start :], **DECODING)
        return torch.tensor(["\n" in text.lstrip() for text in texts], device=input_ids.device)


class FirstLineStreamer(TextStreamer):
    """Hands out the first line word by word; a character whose bytes are not all there yet is held back.

    Args:
        tokenizer: of the base LM.
        on_token: gets each piece; joined and stripped they are the first line.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, on_token: Callable[[str], None]) -> None:
        super().__init__(tokenizer, skip_prompt=True, **DECODING)
        self.on_token = on_token
        self.has_begun = self.has_ended = False

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Text that later tokens cannot change."""
        line, newline, _ = (text if self.has_begun else text.lstrip()).partition("\n")
        if line and not self.has_ended:
            self.has_begun = True
            self.on_token(line)
        self.has_ended |= bool(newline)
