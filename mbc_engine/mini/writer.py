"""Answers that a chat LM writes from a passage, which is read once and kept as a key/value prefix.

The LM turns what the span reader found into a sentence, with few-shot examples: given only the passage, an LM of 135M
parameters answered from memory or made things up. The prompt uses the LM's own chat template. Passages, questions and
spans are untrusted: nothing in them acts as one of the template's special tokens.
"""

import re
from collections.abc import Callable
from functools import cached_property
from itertools import cycle
from typing import Final

import torch
from jinja2 import TemplateError

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.base import BaseLM, KVPrefix, load_base
from mbc_engine.lm.packaged import LANGUAGE_MODEL, find_language_model
from mbc_engine.mini.span_reader import is_fast_in_bf16

_QUESTION_WINDOW, _SPAN_WINDOW = 256, 128
# Passages whose keys and values are cached: 23 kB per token for SmolLM2-135M in bf16.
_CACHED_PASSAGES: Final = 4
_QUESTION_LINE, _SPAN_LINE = "Question: {}", "\nShort answer: {}"
# Passage, question, the span found, and the answer.
_EXAMPLES: Final = (
    (
        "Its captain, Edda Lunde, retired after the war, when the ferry was sold to a company in Oslo.",
        "Who was captain of the ferry?",
        "Edda Lunde",
        "The captain of the ferry was Edda Lunde.",
    ),
    ("The Solvej was built in Bergen in 1931.", "When was the Solvej built?", "1931", "The Solvej was built in 1931."),
    (
        "He was paid 300 ducats, less than he had asked for, because the bishop disliked blue.",
        "Why did Marchetti get less than he asked for?",
        "the bishop disliked blue",
        "Marchetti got less than he asked for because the bishop disliked blue.",
    ),
    (
        "Some 40 species of moss grow on the northern wall.",
        "How many kinds of moss grow on the wall?",
        "40",
        "There are 40 kinds of moss on the wall.",
    ),
)
# Placeholders for the passage, and for the question with the span found, while the template is rendered.
_PASSAGE, _QUESTION = "\ue000", "\ue001"


class Writer:
    """A chat LM that turns what was found in a passage into an answer, greedily; `name` is its hub id or path.

    Raises ModelError if its tokenizer has no usable chat template.
    """

    def __init__(self, base: BaseLM, name: str) -> None:
        self.base, self.name = base, name
        tokenizer = base.tokenizer
        if not tokenizer.chat_template:
            raise ModelError(f"The language model {name} has no chat template.", hint="Use an instruct model.")
        turns = [
            turn
            for passage, question, span, answer in _EXAMPLES
            for turn in (f"{passage}\n\n{_QUESTION_LINE.format(question)}{_SPAN_LINE.format(span)}", answer)
        ]
        messages = [
            {"role": role, "content": turn}
            for role, turn in zip(cycle(("user", "assistant")), [*turns, f"{_PASSAGE}\n\n{_QUESTION}"], strict=False)
        ]
        try:
            filled = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
            parts = re.split(f"[{_PASSAGE}{_QUESTION}]", str(filled))
            self._head, self._middle, self._tail = tokenizer(parts, add_special_tokens=False)["input_ids"]
        except (TemplateError, ValueError) as error:
            raise ModelError(
                f"The chat template of {name} cannot be used: {error}", hint="Use another instruct model."
            ) from error
        # Tokenizers split only tokens that are marked as special, which <tool_call>, for one, may not be.
        self._acting = {id for token, id in tokenizer.get_added_vocab().items() if token.strip()}
        self._prefixes: dict[tuple[int, ...], KVPrefix] = {}

    def write(
        self,
        question: str,
        span: str,
        passage: str,
        *,
        max_new_tokens: int,
        on_token: Callable[[str], None] | None = None,
    ) -> str:
        """The answer in one line, streamed to `on_token` in pieces; the passage is cut to fit the context.

        Raises ConfigError if the question and the answer do not fit even without a passage.
        """
        question_ids = self._tokens(_QUESTION_LINE.format(question), _QUESTION_WINDOW)
        row = [*self._middle, *question_ids, *self._tokens(_SPAN_LINE.format(span), _SPAN_WINDOW), *self._tail]
        room = self.base.context - len(self._head) - len(row) - max_new_tokens
        if room < 0:
            raise ConfigError(
                f"The question and an answer of {max_new_tokens} tokens do not fit the context of {self.name}, "
                f"{self.base.context} tokens.",
                hint="Ask for a shorter answer.",
            )
        prefix = self._prefix(tuple(self._tokens(passage, room)))
        (text,) = self.base.complete(prefix, [row], max_new_tokens=max_new_tokens, on_token=on_token)
        return text

    def _tokens(self, text: str, window: int) -> list[int]:
        (ids,) = self.base.prompt_tokenizer.tokens([text])
        return [id for id in ids if id not in self._acting][:window]

    def _prefix(self, passage: tuple[int, ...]) -> KVPrefix:
        if passage not in self._prefixes:
            while len(self._prefixes) >= _CACHED_PASSAGES:
                del self._prefixes[next(iter(self._prefixes))]
            self._prefixes[passage] = self.base.read(list(passage), self._examples) if passage else self._examples
        return self._prefixes[passage]

    @cached_property
    def _examples(self) -> KVPrefix:
        return self.base.read(self._head)


def load_writer(name: str | None = None, *, device: str = "cpu") -> Writer:
    """Open a chat LM by hub id or path, or else the embedded one, in bfloat16 where that is fast.

    Raises ModelError if it cannot be used, or the embedded one is not installed.
    """
    is_fast = torch.device(device).type != "cpu" or is_fast_in_bf16()
    base = load_base(name or str(find_language_model()), weights="bf16" if is_fast else "float32", device=device)
    return Writer(base, name or LANGUAGE_MODEL)
