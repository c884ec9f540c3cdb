"""A BERT or MPNet with random weights, in transformers and in our `Bert`, and low-rank changes of it."""

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from mbc_engine.lm.bert import Bert


def random_bert(kind, tiny, *, device="cpu", **sizes):
    """Theirs and ours, which share their weights."""
    torch.manual_seed(3)
    theirs: Any = BertModel(BertConfig(**sizes)) if kind == "bert" else MPNetModel(MPNetConfig(**sizes))
    weights = {name: value.numpy() for name, value in theirs.eval().state_dict().items()}
    tokenizer = Tokenizer.from_file(str(tiny.encoders["bert"] / "tokenizer.json"))
    return theirs, Bert(theirs.config.to_dict(), weights, tokenizer, device=device)


def low_rank_changes(encoder, spread):
    """For each linear layer, of rank 2."""
    rng, changes = np.random.default_rng(5), {}
    for name, (outputs, inputs) in encoder.linear_layers().items():
        for part, size in {"down": (2, inputs), "up": (outputs, 2), "bias": (outputs,)}.items():
            changes[f"{name}.{part}"] = rng.normal(0, spread, size).astype(np.float32)
    return changes
