"""Texts for a base LM: questions, passages, targets and pieces as its tokens, and answers as the first line it writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TextStreamer

from mbc_engine.errors import ConfigError, ModelError


@dataclass(frozen=True)
class TokenisedText:
    """A piece of a document: its tokens without special ones, and where each lies, (start, end) in characters."""

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Targets:
    """What the base LM is given and what it should say: ids and mask [B, S], given texts padded on the left.

    Targets, padded on the right, start in one column; `target_mask` [B, A] has their tokens among the last A columns.
    """

    ids: Tensor
    mask: Tensor
    target_mask: Tensor

    @property
    def targets(self) -> Tensor:
        return self.ids[:, -self.target_mask.shape[1] :][self.target_mask.bool()]


class BaseTexts:
    """Texts as the tokens of a base LM that sees `context` columns at once, as it met them in its own training."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, context: int) -> None:
        self._model, self._tokenizer, self._context = model, tokenizer, context

    @property
    def end(self) -> int:
        end: int = self._tokenizer.eos_token_id
        return end

    @cached_property
    def _begin(self) -> list[int]:
        """BOS in most families, or nothing."""
        whole: list[int] = self._tokenizer("a")["input_ids"]
        return whole[: whole.index(self.tokens(["a"], 1)[0][0])]

    def tokens(self, texts: Sequence[str], window: int | None = None) -> list[list[int]]:
        """Token ids of texts without special tokens, at most `window` each."""
        # Not verbose: it would warn of texts longer than the context, which are cut here, or only counted.
        tokens: list[list[int]] = self._tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,  # "<|endoftext|>" in a document is text, and ends nothing
            verbose=False,
        )["input_ids"]
        return [ids[:window] for ids in tokens]

    def pieces(self, text: str, window: int) -> list[TokenisedText]:
        """A text in pieces of at most `window` tokens, and of no more than the context holds; an empty one has none.

        They are equally long, but for a token: a short rest as a step of learning would count as much as all before it.
        """
        if not self._tokenizer.is_fast:
            raise ModelError(
                "The base LM's tokenizer does not say where its tokens are in a text.", hint="Take another base LM."
            )
        encoded = self._tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
        )
        ids, spans = encoded["input_ids"], encoded["offset_mapping"]
        count = -(-len(ids) // min(window, self._context - max(1, len(self._begin))))
        cuts = [len(ids) * number // count for number in range(count + 1)] if count else [0]
        return [_piece(text, ids[start:end], spans[start:end]) for start, end in pairwise(cuts)]

    def asked(
        self,
        questions: Sequence[str],
        answers: Sequence[str],
        *,
        passages: Sequence[str] | None = None,
        question_window: int,
        answer_window: int,
    ) -> Targets:
        """Questions as given texts, answers as targets: capitalised, after a space, ended by EOS, which counts.

        A passage stands on the line before its question, as in `BaseLM.generate` without a prefix.
        """
        if passages is None:
            given = self._given(questions, question_window)
        else:
            given = self.prompts(questions, passages, window=question_window, room=self._context - answer_window)
        wanted = [f" {answer[:1].upper()}{answer[1:]}" for answer in answers]
        return self._targets(given, [[*tokens, self.end] for tokens in self.tokens(wanted, answer_window - 1)])

    def written(self, texts: list[str], *, window: int) -> Targets:
        """Whole texts as targets, cut after `window` tokens; given is what texts begin with, or else EOS."""
        return self.written_tokens(self.tokens(texts, window))

    def written_tokens(self, rows: list[list[int]]) -> Targets:
        """As `written`, of texts that are tokens already."""
        return self._targets([self._begin or [self.end]] * len(rows), rows)

    def prompts(
        self, questions: Sequence[str], passages: Sequence[str] | None, *, window: int, room: int
    ) -> list[list[int]]:
        """Token ids of questions, each after its passage, at most `room` a prompt. Raises ConfigError if one does not fit."""
        asked = self._given(questions, window)
        begin = len(self._begin)
        longest = max(map(len, asked))
        if longest > room:
            raise ConfigError(
                f"A question of {longest} tokens, its prefix and its answer do not fit the base LM's context of "
                f"{self._context}.",
                hint="Ask for a shorter answer.",
            )
        if passages is None:
            return asked
        (line_end,) = self.tokens(["\n"], room)
        prompts = []
        for question, passage in zip(asked, self.tokens(passages, room), strict=True):
            read = passage[: max(0, room - len(line_end) - len(question))]
            prompts.append([*question[:begin], *read, *line_end, *question[begin:]] if read else question)
        return prompts

    def padded(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        device, width = self._model.device, max(map(len, rows))
        ids = torch.tensor([[self.end] * (width - len(row)) + row for row in rows], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
        return ids, mask

    def _given(self, questions: Sequence[str], window: int) -> list[list[int]]:
        return [[*self._begin, *ids] or [self.end] for ids in self.tokens(questions, window)]

    def _targets(self, given: list[list[int]], targets: list[list[int]]) -> Targets:
        device = self._model.device
        left, left_mask = self.padded(given)
        width = max(map(len, targets))
        right = torch.tensor([ids + [self.end] * (width - len(ids)) for ids in targets], device=device)
        right_mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in targets], device=device)
        return Targets(torch.cat([left, right], 1), torch.cat([left_mask, right_mask], 1), right_mask)


def _piece(text: str, ids: list[int], spans: list[tuple[int, int]]) -> TokenisedText:
    start, end = spans[0][0], max(end for _, end in spans)
    return TokenisedText(text[start:end], tuple(ids), tuple((first - start, last - start) for first, last in spans))


# To the space: a tokenizer that tidies would change text that has already been said.
DECODING: dict[str, Any] = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


def first_line(text: str) -> str:
    """The first line with text, stripped."""
    return text.strip().partition("\n")[0].rstrip()


def first_line_ends(tokenizer: PreTrainedTokenizerBase, start: int) -> Callable[..., Tensor]:
    """A stopping criterion: each row of a batch ends with its first line, generated from column `start` on."""

    def ended(input_ids: Tensor, *_: object, **__: object) -> Tensor:
        texts = tokenizer.batch_decode(input_ids[:, start:], **DECODING)
        return torch.tensor(["\n" in text.lstrip() for text in texts], device=input_ids.device)

    return ended


class FirstLineStreamer(TextStreamer):
    """Hands out the first line word by word, but no character whose bytes are not all there yet."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, on_token: Callable[[str], None]) -> None:
        super().__init__(tokenizer, skip_prompt=True, **DECODING)
        self.on_token = on_token
        self.has_begun = self.has_ended = False

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        line, newline, _ = (text if self.has_begun else text.lstrip()).partition("\n")
        if line and not self.has_ended:
            self.has_begun = True
            self.on_token(line)
        self.has_ended |= bool(newline)
