"""The frozen encoder of `mini` and its sentence vectors."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.lm.pretrained import is_fast_in_bf16

ENCODER: Final = "sentence-transformers/all-MiniLM-L6-v2"


def sentence_vectors(
    model: PreTrainedModel, tokens: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerBase, longest: int = 64
) -> np.ndarray:
    """Normalised means of an encoder's states, [N, D]."""
    vectors = np.zeros((len(tokens), model.config.hidden_size), dtype=np.float32)
    is_fast = is_fast_in_bf16(model.device)
    order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
    for batch in (order[start : start + 32] for start in range(0, len(order), 32)):
        rows = [[tokenizer.cls_token_id, *tokens[place][:longest], tokenizer.sep_token_id] for place in batch]
        width = max(map(len, rows))
        ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows], device=model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
        with torch.inference_mode(), torch.autocast(model.device.type, torch.bfloat16, enabled=is_fast):
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        vectors[batch] = torch.nn.functional.normalize(means, dim=-1).cpu().numpy()
    return vectors
