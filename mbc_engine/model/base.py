"""The base LM f_theta_b with its tokenizer: losses and texts under a key/value prefix, or without one.

It is frozen, as a memory wants it, until `tune` makes it learn. Positions start after the prefix: the first token of a
text stands at position P, and padding does not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mbc_engine.config import BaseWeights
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model.families import AttentionShape, attention_shape, family_of, logit_scale
from mbc_engine.model.first_line import DECODING, FirstLineEnd, FirstLineStreamer, first_line
from mbc_engine.model.prefix import KVPrefix
from mbc_engine.model.pretrained import open_pretrained, told_of
from mbc_engine.model.token_loss import token_loss, token_losses
from mbc_engine.model.tokenised_text import TokenisedText
from mbc_engine.model.weights import base_dtype
from mbc_engine.model_folder import EMBEDDED, packaged_model


@dataclass(frozen=True)
class Targets:
    """Texts for the base LM: what it is given and what it should say.

    Attributes:
        ids: [B, S], given texts padded on the left, targets on the right, so that all targets start in one column.
        mask: [B, S], 1 for tokens.
        target_mask: [B, A], 1 for the target tokens among the last A columns.
    """

    ids: Tensor
    mask: Tensor
    target_mask: Tensor

    @property
    def targets(self) -> Tensor:
        """The target tokens, row after row, [N]."""
        return self.ids[:, -self.target_mask.shape[1] :][self.target_mask.bool()]


class BaseLM(nn.Module):
    """A causal LM that reads prefixes, frozen until it is tuned.

    Args:
        model: any supported `AutoModelForCausalLM`.
        tokenizer: its tokenizer.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        family_of(model.config)
        self.model = model.requires_grad_(False)
        # A hub model's own settings (a repetition penalty, say) would silently join those of `generate`.
        model.generation_config = GenerationConfig()
        self.tokenizer = tokenizer

    @property
    def shape(self) -> AttentionShape:
        """Width, layers and key/value heads."""
        return attention_shape(self.model.config)

    @property
    def context(self) -> int:
        """How many columns, prefix and padding included, every layer sees.

        A layer with a sliding window would lose sight of the prefix beyond it, in a padded row first.
        """
        config = self.model.config
        longest: int = config.max_position_embeddings
        return min(longest, getattr(config, "sliding_window", None) or longest)

    @property
    def _end(self) -> int:
        end: int = self.tokenizer.eos_token_id
        return end

    @cached_property
    def _begin(self) -> list[int]:
        """What its tokenizer puts before every text, as in the base LM's training: BOS in most families, or nothing."""
        whole: list[int] = self.tokenizer("a")["input_ids"]
        return whole[: whole.index(self._tokens(["a"], 1)[0][0])]

    def no_prefix(self, batch: int) -> KVPrefix:
        """The prefix of nothing before `batch` texts, for a base LM that is used by itself."""
        shape = self.shape
        return KVPrefix.none(
            batch,
            layers=shape.layers,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            device=self.model.device,
        )

    def tune(self) -> None:
        """Let all weights learn. `loss` then has gradients for them, the output head's included.

        Raises:
            ModelError: weights are packed or rounded; small updates would be lost in them.
        """
        coarse = {str(value.dtype).removeprefix("torch.") for value in self.parameters()} - {"float32"}
        if coarse:
            raise ModelError(
                f"A base LM can only be tuned in float32, and weights of this one are {min(coarse)}.",
                hint="Hold its weights as float32: model.base_weights=float32.",
            )
        self.model.requires_grad_(True)

    def save(self, folder: Path) -> None:
        """Write model and tokenizer to a folder that `load_base` opens."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def pieces(self, text: str, window: int) -> list[TokenisedText]:
        """A text in pieces of at most `window` tokens, and of no more than the context holds; an empty one has none.

        The pieces are equally long, but for a token: each is to be a step of learning, and a short rest of one would
        count as much as all before it.

        Raises:
            ModelError: the tokenizer does not know where its tokens lie.
        """
        if not self.tokenizer.is_fast:
            raise ModelError(
                "The base LM's tokenizer does not tell where its tokens lie in a text.", hint="Take another base LM."
            )
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        ids, spans = encoded["input_ids"], encoded["offset_mapping"]
        count = -(-len(ids) // min(window, self.context - max(1, len(self._begin))))
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
        """Questions as given texts, answers as targets: capitalised, after a space, ended by EOS.

        Args:
            questions: those longer than the window are cut.
            answers: one for each question.
            passages: a text for each question to stand on the line before it, as in `generate` without a prefix when
                `max_new_tokens` is the answers' window.
            question_window: longest question in tokens.
            answer_window: longest answer in tokens, EOS included.
        """
        if passages is None:
            given = self._given(questions, question_window)
        else:
            given = self._prompts(questions, passages, window=question_window, room=self.context - answer_window)
        targets = [
            [*tokens, self._end]
            for tokens in self._tokens([_as_target(answer) for answer in answers], answer_window - 1)
        ]
        return self._targets(given, targets)

    def written(self, texts: list[str], *, window: int) -> Targets:
        """Whole texts as targets, cut after `window` tokens; what is given is one BOS or, in most families, EOS."""
        return self._targets([self._begin or [self._end]] * len(texts), self._tokens(texts, window))

    def loss(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """Mean negative log-likelihood of the target tokens under prefixes, a scalar in nats (paper, section 3.5)."""
        states = self._before(prefix, texts)
        if self._head_learns:
            return token_losses(states, texts.targets, self._logits).mean()
        return token_loss(states, texts.targets, self._logits)

    def piece_loss(self, piece: TokenisedText, weights: Tensor) -> Tensor:
        """Mean over a piece's tokens of weight times negative log-likelihood, a scalar in nats.

        As in `written`, the first token is predicted from BOS, or in most families EOS. What weighs nothing is not
        computed, so that weights of 0 get no gradient.

        Args:
            piece: one of `pieces`.
            weights: of its tokens, [S].
        """
        texts = self._targets([self._begin or [self._end]], [list(piece.ids)])
        weights = weights.to(texts.ids.device)
        counted = weights != 0
        states = self._before(self.no_prefix(1), texts)[counted]
        losses = token_losses(states, texts.targets[counted], self._logits)
        return (weights[counted] * losses).sum() / len(weights)

    @property
    def _head_learns(self) -> bool:
        return any(value.requires_grad for value in self.model.get_output_embeddings().parameters())

    @torch.no_grad()
    def log_likelihood(
        self,
        prefix: KVPrefix,
        questions: Sequence[str],
        answers: Sequence[str],
        *,
        question_window: int = 128,
        answer_window: int = 64,
    ) -> Tensor:
        """Mean log-probability of a target token of each answer under its prefix, [B] in nats.

        The targets are those of `asked`, EOS included; an answer longer than its window is judged by its beginning.
        """
        texts = self.asked(questions, answers, question_window=question_window, answer_window=answer_window)
        by_token = torch.zeros(texts.target_mask.shape, device=texts.ids.device)
        by_token[texts.target_mask.bool()] = -token_losses(self._before(prefix, texts), texts.targets, self._logits)
        return by_token.sum(1) / texts.target_mask.sum(1)

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
        said: Callable[[str], None] | None = None,
    ) -> list[str]:
        """Answers to questions under prefixes: greedy, or by beam search.

        An answer is the first line with text (`first_line.py`). Each ends with its line, at EOS or after
        `max_new_tokens`, whatever the others of the batch do.

        Args:
            prefix: of each question.
            questions: those longer than the window are cut.
            passages: a text for each question to stand on the line before it, cut where the context is full; an empty
                one leaves the question alone.
            window: longest question in tokens.
            max_new_tokens: longest answer in tokens.
            beams: beam search's width, 1 is greedy.
            said: gets the answer's text in pieces as they become certain; joined and stripped they are the answer. For
                one question, greedy.

        Raises:
            ConfigError: a question and its answer do not fit the context.
            ValueError: `said` with several questions or beams.
        """
        if said is not None and (len(questions) != 1 or beams != 1):
            raise ValueError("Only one greedy answer can be said as it is generated.")
        prompts = self._prompts(questions, passages, window=window, room=self.context - prefix.length - max_new_tokens)
        ids, mask = _pad_left(prompts, self._end, self.model.device)
        columns = mask.new_ones(len(ids), prefix.length)
        generated: Tensor = self.model.generate(  # type: ignore[operator]
            input_ids=ids,
            attention_mask=torch.cat([columns, mask], dim=1),
            past_key_values=prefix.repeat(beams).cache(self.model.dtype),
            generation_config=GenerationConfig(
                max_new_tokens=max_new_tokens,
                num_beams=beams,
                do_sample=False,
                eos_token_id=self._end,
                pad_token_id=self._end,
            ),
            stopping_criteria=[FirstLineEnd(self.tokenizer, ids.shape[1])],
            streamer=None if said is None else FirstLineStreamer(self.tokenizer, said),
        )
        return [first_line(text) for text in self.tokenizer.batch_decode(generated[:, ids.shape[1] :], **DECODING)]

    def _prompts(
        self, questions: Sequence[str], passages: Sequence[str] | None, *, window: int, room: int
    ) -> list[list[int]]:
        """Token ids of questions, each after its passage, at most `room` a prompt."""
        asked = self._given(questions, window)
        begin = len(self._begin)
        longest = max(map(len, asked))
        if longest > room:
            raise ConfigError(
                f"A question of {longest} tokens, its prefix and its answer do not fit the base LM's context of "
                f"{self.context}.",
                hint="Ask for a shorter answer.",
            )
        if passages is None:
            return asked
        (line_end,) = self._tokens(["\n"], room)
        prompts = []
        for question, passage in zip(asked, self._tokens(passages, room), strict=True):
            read = passage[: max(0, room - len(line_end) - len(question))]
            prompts.append([*question[:begin], *read, *line_end, *question[begin:]] if read else question)
        return prompts

    def _before(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """The last hidden states before the target tokens, each of which predicts its token, [N, D]."""
        mask = torch.cat([texts.mask.new_ones(len(texts.ids), prefix.length), texts.mask], dim=1)
        states: Tensor = self.model.get_decoder()(
            input_ids=texts.ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp_min(0)[:, prefix.length :],
            past_key_values=prefix.fixed(self.model.dtype),
            use_cache=True,
        ).last_hidden_state
        return states[:, -texts.target_mask.shape[1] - 1 : -1][texts.target_mask.bool()]

    def _logits(self, states: Tensor) -> Tensor:
        """Logits of hidden states, [N, D] -> [N, V], scaled and soft-capped where the family does so."""
        logits: Tensor = self.model.get_output_embeddings()(states)
        scale = logit_scale(self.model.config)
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        scaled = logits if scale == 1 else logits * scale  # a vocabulary wide, so not for nothing
        return scaled if cap is None else torch.tanh(scaled / cap) * cap

    def _given(self, questions: Sequence[str], window: int) -> list[list[int]]:
        """Token ids of questions; there is always one to predict from, as there is for `written`."""
        return [[*self._begin, *ids] or [self._end] for ids in self._tokens(questions, window)]

    def _tokens(self, texts: Sequence[str], window: int) -> list[list[int]]:
        """Token ids of texts without special tokens, at most `window` each."""
        # Not verbose: it would warn of texts longer than the context, which are cut here.
        tokens: list[list[int]] = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,  # "<|endoftext|>" in a document is text, and ends nothing
            verbose=False,
        )["input_ids"]
        return [ids[:window] for ids in tokens]

    def _targets(self, given: list[list[int]], targets: list[list[int]]) -> Targets:
        device = self.model.device
        left, left_mask = _pad_left(given, self._end, device)
        width = max(map(len, targets))
        right = torch.tensor([ids + [self._end] * (width - len(ids)) for ids in targets], device=device)
        right_mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in targets], device=device)
        return Targets(torch.cat([left, right], 1), torch.cat([left_mask, right_mask], 1), right_mask)


def load_base(name: str, *, weights: BaseWeights = "float32", device: str | torch.device = "cpu") -> BaseLM:
    """Open a base LM by hub id or path, or as `embedded:PATH` inside this package's models.

    Raises:
        ModelError: it is not there, its family is not supported, or bitsandbytes is missing.
    """
    place, rest = name, base_dtype(weights, torch.device(device))
    if name.startswith(EMBEDDED):
        place = str(packaged_model(name.removeprefix(EMBEDDED)))
        if not Path(place).is_dir():
            raise ModelError(f"This installation has no {name}.", hint="Install the package again.")
    way = "Give a folder or a hub id; off-line it must be in the local hub cache."
    with told_of(f"The base LM {name}", way):
        opened = open_pretrained(
            AutoModelForCausalLM, place, name=name, weights=weights, rest=rest, device=device, check=family_of
        )
    if opened.tokenizer.eos_token_id is None:
        raise ModelError(f"The tokenizer of {name} has no token that ends a text.", hint="Take another base LM.")
    return BaseLM(opened.model, opened.tokenizer)


def _piece(text: str, ids: list[int], spans: list[tuple[int, int]]) -> TokenisedText:
    """The part of a text that tokens cover, their spans told from its beginning."""
    start, end = spans[0][0], max(end for _, end in spans)
    return TokenisedText(text[start:end], tuple(ids), tuple((first - start, last - start) for first, last in spans))


def _as_target(answer: str) -> str:
    return f" {answer[:1].upper()}{answer[1:]}"


def _pad_left(rows: list[list[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask
