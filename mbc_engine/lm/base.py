"""The base LM f_theta_b: tokenization, losses and generation with a key/value prefix.

It is frozen until `tune`. A text's first token has position P, after the prefix; padding takes no position.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteriaList,
    TextStreamer,
)
from transformers.cache_utils import DynamicLayer

from mbc_engine.config import BaseWeights
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.encoders import padded_batches
from mbc_engine.lm.pretrained import key_value_modules, open_pretrained


@dataclass(frozen=True)
class TokenisedText:
    """A piece of a document: its tokens without special ones, and their (start, end) character offsets."""

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Targets:
    """Inputs and targets of the base LM: ids, mask and target_mask [B, S], right-padded.

    `target_mask` marks the tokens to predict, never a text's first.
    """

    ids: Tensor
    mask: Tensor
    target_mask: Tensor

    @property
    def targets(self) -> Tensor:
        return self.ids[self.target_mask]

    def by_length(self, size: int, tokens: float = math.inf) -> Iterator[tuple[Tensor, "Targets"]]:
        """Batches of texts, shortest first, without needless padding, each after its row indices [b].

        A batch has at most `size` texts and `tokens` tokens, unless a single text has more.
        """
        lengths = self.mask.sum(1).tolist()
        for chosen in padded_batches(lengths, size=size, longest=tokens):
            rows, width = torch.tensor(chosen, device=self.ids.device), lengths[chosen[-1]]
            yield rows, Targets(self.ids[rows, :width], self.mask[rows, :width], self.target_mask[rows, :width])


class PromptTokenizer:
    """Tokenizes texts as in a base LM's pretraining; `context` is its context length."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, context: int) -> None:
        self._model, self._tokenizer, self._context = model, tokenizer, context

    @property
    def end(self) -> int:
        end: int = self._tokenizer.eos_token_id
        return end

    @cached_property
    def _begin(self) -> list[int]:
        whole: list[int] = self._tokenizer("a")["input_ids"]
        return whole[: whole.index(self.tokens(["a"], 1)[0][0])]

    def tokens(self, texts: Sequence[str], window: int | None = None) -> list[list[int]]:
        """Token ids of texts without special tokens, at most `window` each."""
        return [ids[:window] for ids in self._encoded(list(texts))["input_ids"]]

    def _encoded(self, texts: str | list[str], **options: Any) -> Any:
        # "<|endoftext|>" in a document is plain text. Not verbose: the tokenizer would warn of texts longer than the
        # context, which are cut, or only counted.
        return self._tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False, **options)

    def pieces(self, text: str, window: int) -> list[TokenisedText]:
        """Split a text into pieces of at most `window` tokens that fit the context; an empty text has none.

        Their lengths differ by at most one token: in training, a short remainder would count as much as the rest.
        """
        encoded = self._encoded(text, return_offsets_mapping=True)
        ids, spans = encoded["input_ids"], encoded["offset_mapping"]
        count = -(-len(ids) // min(window, self._context - max(1, len(self._begin))))
        cuts = [len(ids) * number // count for number in range(count + 1)] if count else [0]
        return [_piece(text, ids[start:end], spans[start:end]) for start, end in pairwise(cuts)]

    def question_answer_targets(
        self,
        questions: Sequence[str],
        answers: Sequence[str],
        *,
        passages: Sequence[str] | None = None,
        question_window: int,
        answer_window: int,
    ) -> Targets:
        """Questions as prompts, answers as targets: capitalised, after a space, ended by EOS, which is a target too.

        A passage goes on the line before its question, as in `BaseLM.generate` without a prefix.
        """
        if passages is None:
            given = self._given(questions, question_window)
        else:
            given = self.prompts(questions, passages, window=question_window, room=self._context - answer_window)
        wanted = [f" {answer[:1].upper()}{answer[1:]}" for answer in answers]
        return self._targets(given, [[*tokens, self.end] for tokens in self.tokens(wanted, answer_window - 1)])

    def text_targets(self, texts: list[str], *, window: int) -> Targets:
        """Whole texts as targets, cut to `window` tokens, after the tokenizer's BOS tokens, or else EOS."""
        return self.token_targets(self.tokens(texts, window))

    def token_targets(self, rows: list[list[int]]) -> Targets:
        return self._targets([self._begin or [self.end]] * len(rows), rows)

    def prompts(
        self, questions: Sequence[str], passages: Sequence[str] | None, *, window: int, room: int
    ) -> list[list[int]]:
        """Token ids of questions, each after its passage, at most `room`. Raises ConfigError if one does not fit."""
        given = self._given(questions, window)
        begin = len(self._begin)
        longest = max(map(len, given))
        if longest > room:
            raise ConfigError(
                f"A question of {longest} tokens, its prefix and its answer do not fit the base LM's context of "
                f"{self._context}.",
                hint="Ask for a shorter answer.",
            )
        if passages is None:
            return given
        (line_end,) = self.tokens(["\n"], room)
        prompts = []
        for question, passage in zip(given, self.tokens(passages, room), strict=True):
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
        rows = [[*start, *rest] for start, rest in zip(given, targets, strict=True)]
        width, device = max(map(len, rows)), self._model.device
        ids = torch.tensor([row + [self.end] * (width - len(row)) for row in rows], device=device)
        column = torch.arange(width, device=device)
        starts, ends = (torch.tensor([[*map(len, some)]], device=device).T for some in (given, rows))
        return Targets(ids, (column < ends).long(), (starts <= column) & (column < ends))


def _piece(text: str, ids: list[int], spans: list[tuple[int, int]]) -> TokenisedText:
    start, end = spans[0][0], max(end for _, end in spans)
    return TokenisedText(text[start:end], tuple(ids), tuple((first - start, last - start) for first, last in spans))


# Spaces as they are: clean-up would change text that has already been streamed.
DECODING: dict[str, Any] = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


def first_line(text: str) -> str:
    """The first non-blank line, stripped."""
    return text.strip().partition("\n")[0].rstrip()


def first_line_ends(tokenizer: PreTrainedTokenizerBase, start: int) -> Callable[..., Tensor]:
    """A stopping criterion: each row ends after the first line generated from column `start` on."""

    def ended(input_ids: Tensor, *_: object, **__: object) -> Tensor:
        texts = tokenizer.batch_decode(input_ids[:, start:], **DECODING)
        return torch.tensor(["\n" in text.lstrip() for text in texts], device=input_ids.device)

    return ended


class Streamer(TextStreamer):
    """Streams the first line, or all if it `has_lines`, word by word; holds back characters with incomplete bytes."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, on_token: Callable[[str], None], *, has_lines: bool = False
    ) -> None:
        super().__init__(tokenizer, skip_prompt=True, **DECODING)
        self.on_token, self.has_lines = on_token, has_lines
        self.has_begun = self.has_ended = False

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        begun = text if self.has_begun else text.lstrip()
        line, newline, _ = (begun, "", "") if self.has_lines else begun.partition("\n")
        if line and not self.has_ended:
            self.has_begun = True
            self.on_token(line)
        self.has_ended |= bool(newline)


# Hidden states per product with the head: the logits of a whole batch would not fit.
_HEAD_ROWS = 512
# Texts per forward pass on a CPU, where padding costs more than many small matrix products.
_CPU_BATCH = 8


def token_losses(states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    """Negative log-likelihood of tokens [N] in nats, from the LM's last hidden states [N, D]; `head` computes logits.

    The logits of a whole batch are never held at once.
    """

    def block(some: Tensor, ids: Tensor) -> Tensor:
        return functional.cross_entropy(head(some).float(), ids, reduction="none")

    blocks = zip(states.split(_HEAD_ROWS), targets.split(_HEAD_ROWS), strict=True)
    if len(targets) <= _HEAD_ROWS or not torch.is_grad_enabled():
        return torch.cat([block(some, ids) for some, ids in blocks])
    return torch.cat([checkpoint(block, some, ids, use_reentrant=False) for some, ids in blocks])


@dataclass(frozen=True)
class AttentionShape:
    """A base LM's width D, layers L, key/value heads and their width, which need not be D / heads."""

    dim: int
    layers: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class KVPrefix:
    """Keys and values of P extra columns for every layer: each [B, layers, kv_heads, P, head_dim]."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.shape[3]

    def of(self, rows: Tensor | slice) -> "KVPrefix":
        """The prefixes of rows [b] of the batch."""
        return KVPrefix(self.keys[rows], self.values[rows])

    def repeat(self, times: int) -> "KVPrefix":
        return KVPrefix(self.keys.repeat_interleave(times, 0), self.values.repeat_interleave(times, 0))

    def cache(self, dtype: torch.dtype) -> DynamicCache:
        """A new cache that holds the prefix; a forward pass extends it."""
        return DynamicCache(zip(self.keys.to(dtype).unbind(1), self.values.to(dtype).unbind(1), strict=True))

    def fixed(self, dtype: torch.dtype) -> DynamicCache:
        """A cache that never grows, however often a layer runs: for one pass over whole texts."""
        cache, layers = DynamicCache(), zip(self.keys.to(dtype).unbind(1), self.values.to(dtype).unbind(1), strict=True)
        cache.layers = [_FixedLayer(keys, values) for keys, values in layers]
        return cache


class _FixedLayer(DynamicLayer):
    """A prefix that does not grow, so that a layer can be recomputed (gradient checkpointing)."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        super().update(keys, values)

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)


class BaseLM(nn.Module):
    """A causal LM that reads prefixes, frozen until `tune`; `prompt_tokenizer` tokenizes its inputs."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        key_value_modules(model.config)
        self.model = model.requires_grad_(False)
        # A hub model's own settings (a repetition penalty, say) would silently apply in `generate`.
        model.generation_config = GenerationConfig()
        self.tokenizer, self.prompt_tokenizer = tokenizer, PromptTokenizer(model, tokenizer, self.context)

    @property
    def shape(self) -> AttentionShape:
        config = self.model.config
        heads = config.num_attention_heads
        return AttentionShape(
            dim=config.hidden_size,
            layers=config.num_hidden_layers,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        )

    @property
    def context(self) -> int:
        """The context length of every layer, prefix and padding included.

        Beyond its sliding window a layer would no longer see the prefix, in padded rows first.
        """
        config = self.model.config
        longest: int = config.max_position_embeddings
        return min(longest, getattr(config, "sliding_window", None) or longest)

    def no_prefix(self, batch: int) -> KVPrefix:
        shape = self.shape
        columns = torch.empty(batch, shape.layers, shape.kv_heads, 0, shape.head_dim, device=self.model.device)
        return KVPrefix(columns, columns)

    def tune(self) -> None:
        """Make all weights trainable. Raises ModelError if any is not float32: small updates would be lost."""
        coarse = {str(value.dtype).removeprefix("torch.") for value in self.parameters()} - {"float32"}
        if coarse:
            raise ModelError(
                f"A base LM can only be tuned in float32, but this one has {min(coarse)} weights.",
                hint="Set model.base_weights=float32.",
            )
        self.model.requires_grad_(True)

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def loss(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """Mean negative log-likelihood of the target tokens given prefixes, a scalar in nats (paper, section 3.5)."""
        return torch.cat([losses for _, _, losses in self._losses(prefix, texts)]).mean()

    def divergence(self, prefix: KVPrefix, texts: Targets, read: Targets) -> Tensor:
        """Mean KL divergence of predictions given prefixes from those for the same targets in `read`, in nats.

        `read` has a passage before each question; it is without gradient (context distillation).
        """
        with torch.no_grad():
            expected = self._logits(self._before(self.no_prefix(len(read.ids)), read)).float().log_softmax(-1)
        found = self._logits(self._before(prefix, texts)).float().log_softmax(-1)
        return functional.kl_div(found, expected, log_target=True, reduction="batchmean")

    def piece_loss(self, piece: TokenisedText, weights: Tensor) -> Tensor:
        """Negative log-likelihood of one of `PromptTokenizer.pieces`, times weights [S]: its mean per token, in nats.

        Tokens of weight 0 are not computed, so their weights get no gradient.
        """
        texts = self.prompt_tokenizer.token_targets([list(piece.ids)])
        weights = weights.to(texts.ids.device)
        counted = weights != 0
        states = self._before(self.no_prefix(1), texts)[counted]
        losses = token_losses(states, texts.targets[counted], self._logits)
        return (weights[counted] * losses).sum() / len(weights)

    @torch.no_grad()
    def log_likelihood(self, prefix: KVPrefix, questions: Sequence[str], answers: Sequence[str]) -> Tensor:
        """Mean log-probability per token of each answer given its prefix, [B] in nats; prompts as in training."""
        texts = self.prompt_tokenizer.question_answer_targets(questions, answers, question_window=128, answer_window=64)
        means = torch.empty(len(texts.ids), device=texts.ids.device)
        for rows, some, losses in self._losses(prefix, texts):
            by_token = torch.zeros(some.target_mask.shape, device=means.device)
            by_token[some.target_mask] = -losses
            means[rows] = by_token.sum(1) / some.target_mask.sum(1)
        return means

    @torch.no_grad()
    def generate(
        self,
        prefix: KVPrefix,
        questions: Sequence[str],
        *,
        passages: Sequence[str] | None = None,
        window: int = 128,
        max_new_tokens: int = 16,
        beams: int = 1,
        on_token: Callable[[str], None] | None = None,
    ) -> list[str]:
        """Answers to questions given prefixes, each its first non-blank line, by greedy or beam search.

        Questions are cut to `window` tokens; a passage, or "", goes on the line before its question, cut to fit the
        context. `on_token` is as in `complete`. Raises ConfigError if a question and its answer do not fit the context.
        """
        room = self.context - prefix.length - max_new_tokens
        rows = self.prompt_tokenizer.prompts(questions, passages, window=window, room=room)
        return self.complete(prefix, rows, max_new_tokens=max_new_tokens, beams=beams, on_token=on_token)

    @torch.no_grad()
    def complete(
        self,
        prefix: KVPrefix,
        rows: Sequence[list[int]],
        *,
        max_new_tokens: int,
        beams: int = 1,
        on_token: Callable[[str], None] | None = None,
        has_lines: bool = False,
    ) -> list[str]:
        """Continuations of rows of tokens given prefixes, by greedy or beam search.

        Each is the first non-blank line, or all that is generated if it `has_lines`. `on_token` gets a single greedy
        answer in pieces; joined and stripped, they are the answer.
        """
        if on_token is not None and (len(rows) != 1 or beams != 1):
            raise ValueError("Only one greedy answer can be streamed.")
        end = self.prompt_tokenizer.end
        ids, mask = self.prompt_tokenizer.padded(list(rows))
        columns = mask.new_ones(len(ids), prefix.length)
        generated: Tensor = self.model.generate(  # type: ignore[operator]
            input_ids=ids,
            attention_mask=torch.cat([columns, mask], dim=1),
            past_key_values=prefix.repeat(beams).cache(self.model.dtype),
            generation_config=GenerationConfig(
                max_new_tokens=max_new_tokens, num_beams=beams, do_sample=False, eos_token_id=end, pad_token_id=end
            ),
            stopping_criteria=StoppingCriteriaList(
                [] if has_lines else [first_line_ends(self.tokenizer, ids.shape[1])]
            ),
            streamer=None if on_token is None else Streamer(self.tokenizer, on_token, has_lines=has_lines),
        )
        texts = self.tokenizer.batch_decode(generated[:, ids.shape[1] :], **DECODING)
        return [text.strip() if has_lines else first_line(text) for text in texts]

    @torch.no_grad()
    def read(self, tokens: list[int], after: KVPrefix | None = None) -> KVPrefix:
        """The keys and values of tokens and of the prefix `after`, which precedes them, in one pass."""
        cache = (after or self.no_prefix(1)).cache(self.model.dtype)
        ids = torch.tensor([tokens], device=self.model.device)
        self.model.get_decoder()(input_ids=ids, past_key_values=cache, use_cache=True)
        return KVPrefix(
            *(torch.stack([getattr(layer, side) for layer in cache.layers], 1) for side in ("keys", "values"))
        )

    def _losses(self, prefix: KVPrefix, texts: Targets) -> Iterator[tuple[Tensor, Targets, Tensor]]:
        """Batches: row indices [b], their texts, and the negative log-likelihoods of the target tokens [N]."""
        for rows, some in texts.by_length(_CPU_BATCH if texts.ids.device.type == "cpu" else len(texts.ids)):
            yield rows, some, token_losses(self._before(prefix.of(rows), some), some.targets, self._logits)

    def _before(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """The last hidden states that target tokens are predicted from, [N, D]."""
        states: Tensor = self.model.get_decoder()(
            input_ids=texts.ids,
            attention_mask=torch.cat([texts.mask.new_ones(len(texts.ids), prefix.length), texts.mask], dim=1),
            past_key_values=prefix.fixed(self.model.dtype),
            use_cache=True,
        ).last_hidden_state
        return states[:, :-1][texts.target_mask[:, 1:]]

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(states)
        config = self.model.config
        scale = getattr(config, "logit_scale", None) or 1 / getattr(config, "logits_scaling", 1.0)
        cap = getattr(config, "final_logit_softcapping", None)
        scaled = logits if scale == 1 else logits * scale  # logits are large: skip multiplying by 1
        return scaled if cap is None else torch.tanh(scaled / cap) * cap


def load_base(name: str, *, weights: BaseWeights = "float32", device: str | torch.device = "cpu") -> BaseLM:
    """Open a base LM by hub id or path."""
    if torch.device(device).type == "cuda":
        # cuDNN's attention plans each new length anew, in 4 ms: more than half of a training step.
        torch.backends.cuda.enable_cudnn_sdp(False)
    model, tokenizer = open_pretrained(
        AutoModelForCausalLM, name, what="The base LM", weights=weights, device=device, check=key_value_modules
    )
    if tokenizer.eos_token_id is None:
        raise ModelError(f"The tokenizer of {name} has no end-of-text token.", hint="Use another base LM.")
    return BaseLM(model, tokenizer)
