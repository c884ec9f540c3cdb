"""The frozen base LM f_theta_b with its tokenizer: losses and texts under a key/value prefix.

Positions start after the prefix: the first token of a text stands at position P, and padding does not count.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.errors import ModelError
from mbc_engine.model.families import AttentionShape, attention_shape, family_of
from mbc_engine.model.prefix import KVPrefix
from mbc_engine.model.token_loss import token_loss


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


class BaseLM(nn.Module):
    """A frozen causal LM that reads prefixes.

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
    def _end(self) -> int:
        end: int = self.tokenizer.eos_token_id
        return end

    def asked(self, questions: list[str], answers: list[str], *, question_window: int, answer_window: int) -> Targets:
        """Questions as given texts, answers as targets: capitalised, after a space, ended by EOS."""
        given = self._tokens(questions, question_window)
        targets = [
            [*tokens, self._end]
            for tokens in self._tokens([_as_target(answer) for answer in answers], answer_window - 1)
        ]
        return self._targets(given, targets)

    def written(self, texts: list[str], *, window: int) -> Targets:
        """Whole texts as targets, cut after `window` tokens; what is given is one EOS."""
        return self._targets([[self._end]] * len(texts), self._tokens(texts, window))

    def loss(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """Mean negative log-likelihood of the target tokens under prefixes, a scalar in nats (paper, section 3.5)."""
        width = texts.target_mask.shape[1]
        before = self._states(prefix, texts)[:, -width - 1 : -1]  # each predicts the token after it
        chosen = texts.target_mask.bool()
        return token_loss(before[chosen], texts.ids[:, -width:][chosen], self._logits)

    @torch.no_grad()
    def generate(
        self, prefix: KVPrefix, questions: list[str], *, window: int = 128, max_new_tokens: int = 16, beams: int = 1
    ) -> list[str]:
        """Answers to questions under prefixes: greedy, or by beam search; they end at EOS or at a line's end."""
        ids, mask = _pad_left(self._tokens(questions, window), self._end, self.model.device)
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
        )
        texts = self.tokenizer.batch_decode(generated[:, ids.shape[1] :], skip_special_tokens=True)
        return [text.strip().split("\n")[0].strip() for text in texts]

    def _states(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """Last hidden states under prefixes, [B, S, D]."""
        mask = torch.cat([texts.mask.new_ones(len(texts.ids), prefix.length), texts.mask], dim=1)
        states: Tensor = self.model.get_decoder()(
            input_ids=texts.ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp_min(0)[:, prefix.length :],
            past_key_values=prefix.cache(self.model.dtype),
            use_cache=True,
        ).last_hidden_state
        return states

    def _logits(self, states: Tensor) -> Tensor:
        """Logits of hidden states, [N, D] -> [N, V], soft-capped where the family does so."""
        logits: Tensor = self.model.get_output_embeddings()(states)
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def _tokens(self, texts: list[str], window: int) -> list[list[int]]:
        """Token ids of texts without special tokens, at most `window` each."""
        tokens: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return [ids[:window] for ids in tokens]

    def _targets(self, given: list[list[int]], targets: list[list[int]]) -> Targets:
        device = self.model.device
        left, left_mask = _pad_left(given, self._end, device)
        width = max(map(len, targets))
        right = torch.tensor([ids + [self._end] * (width - len(ids)) for ids in targets], device=device)
        right_mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in targets], device=device)
        return Targets(torch.cat([left, right], 1), torch.cat([left_mask, right_mask], 1), right_mask)


EMBEDDED = "embedded:"


def load_base(name: str, *, dtype: torch.dtype = torch.float32) -> BaseLM:
    """Open a base LM by hub id or path, or as `embedded:PATH` inside this package's models.

    Raises:
        ModelError: it is not there, or its family is not supported.
    """
    place = name
    if name.startswith(EMBEDDED):
        place = str(files("mbc_engine") / "models" / name.removeprefix(EMBEDDED))
        if not Path(place).is_dir():
            raise ModelError(f"This installation has no {name}.", hint="Install the package again.")
    try:
        model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"The base LM {name} could not be opened: {str(error).splitlines()[0]}",
            hint="Give a folder or a hub id; off-line it must be in the local hub cache.",
        ) from error
    return BaseLM(model, tokenizer)


def _as_target(answer: str) -> str:
    return f" {answer[:1].upper()}{answer[1:]}"


def _pad_left(rows: list[list[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(1, *map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask
