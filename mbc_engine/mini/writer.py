"""Answers that a chat LM writes from passages, which enter as its key/value prefix and are read once.

The prompt is an instruction with the passages and the question in the LM's own chat template. Passages and questions
come from others: nothing in them acts as one of the template's special tokens.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import torch
from jinja2 import TemplateError

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.base import BaseLM, KVPrefix, load_base
from mbc_engine.lm.embedded import LANGUAGE_MODEL, find_language_model
from mbc_engine.mini.span_reader import is_fast_in_bf16

_QUESTION_WINDOW: Final = 256
# Of these many sets of passages the keys and values are kept: 23 kB a token of SmolLM2-135M in bf16.
_MOST_KEPT: Final = 4
# Stand for the passages and the question while the template is filled in.
_PASSAGES, _QUESTION = "\ue000", "\ue001"
PROMPT: Final = f"{_PASSAGES}\n\nAnswer in a few words from the text above: {_QUESTION}"


class Writer:
    """A chat LM that answers questions from passages, `name` by name; greedily.

    Raises ModelError if its tokenizer has no chat template that a prompt can be made with.
    """

    def __init__(self, base: BaseLM, name: str, prompt: str = PROMPT) -> None:
        self.base, self.name = base, name
        tokenizer = base.tokenizer
        if not tokenizer.chat_template:
            raise ModelError(f"The language model {name} has no chat template.", hint="Take an instruct model.")
        message = {"role": "user", "content": prompt}
        try:
            filled = tokenizer.apply_chat_template(
                [message], tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
            parts = re.split(f"[{_PASSAGES}{_QUESTION}]", str(filled))
            self._head, self._middle, self._tail = tokenizer(parts, add_special_tokens=False)["input_ids"]
        except (TemplateError, ValueError) as error:
            raise ModelError(
                f"The chat template of {name} cannot be used: {error}", hint="Take another instruct model."
            ) from error
        # A tokenizer splits only those of its special tokens that are called so: <tool_call> may be none.
        self._acting = {id for token, id in tokenizer.get_added_vocab().items() if token.strip()}
        self._kept: dict[tuple[int, ...], KVPrefix] = {}

    def write(
        self,
        question: str,
        passages: Sequence[str],
        *,
        max_new_tokens: int,
        on_token: Callable[[str], None] | None = None,
    ) -> str:
        """The answer, one line, which `on_token` gets in pieces; passages are cut where the context is full.

        Raises ConfigError if not even question and answer fit the context.
        """
        (asked,) = self._tokens([question], _QUESTION_WINDOW)
        row = [*self._middle, *asked, *self._tail]
        room = self.base.context - len(self._head) - len(row) - max_new_tokens
        if room < 0:
            raise ConfigError(
                f"The question and an answer of {max_new_tokens} tokens do not fit the context of {self.name}, "
                f"{self.base.context} tokens.",
                hint="Ask for a shorter answer.",
            )
        (read,) = self._tokens(["\n\n".join(passages)], room)
        prefix = self._prefix((*self._head, *read))
        (answer,) = self.base.complete(prefix, [row], max_new_tokens=max_new_tokens, on_token=on_token)
        return answer

    def _tokens(self, texts: Sequence[str], window: int) -> list[list[int]]:
        return [[id for id in ids if id not in self._acting][:window] for ids in self.base.texts.tokens(texts)]

    def _prefix(self, tokens: tuple[int, ...]) -> KVPrefix:
        if tokens not in self._kept:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[tokens] = self.base.read(list(tokens))
        return self._kept[tokens]


def load_writer(name: str | None = None, *, device: str = "cpu") -> Writer:
    """Open a chat LM by hub id or path, or else the embedded one, in bfloat16 where that is fast.

    Raises ModelError if it cannot be used.
    """
    is_fast = torch.device(device).type != "cpu" or is_fast_in_bf16()
    name = name or LANGUAGE_MODEL
    place = str(find_language_model()) if name == LANGUAGE_MODEL else name
    return Writer(load_base(place, weights="bf16" if is_fast else "float32", device=device), name)
