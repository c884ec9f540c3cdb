"""A checkpoint of the authors' released code as a model folder.

    python recipes/released/convert.py state.pt OUT --preset distilgpt2 --set model.lora.layers=6

torch unpickles nothing but tensors from it. The result is read as the released code reads it, see `model.as_released`:
there, slots of the prefix are ordered by column, layer, and key or value, a latent fills neighbouring slots, the T5
decoder is causal and attends to padding, and texts are padded: documents to 1,022 tokens, questions, on the left, to 104.
"""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from mbc_engine import MBC, load_preset
from mbc_engine.lm.pretrained import restore
from mbc_engine.paper.builder import build, load_pretrained
from mbc_engine.paper.checkpoint import save_model, trained_state
from mbc_engine.paper.kv_lora import adapter_state

OVERRIDES: Final = ("model.as_released=true", "model.documents.window=1022", "model.questions.window=104")

# Our names, and theirs.
_NAMES: Final = (
    (r"documents\.amortizer\.heads", "mlps"),
    (r"documents\.amortizer\.queries", "enc_decoder.learnable_prompts"),
    (r"documents\.amortizer\.t5", "enc_decoder"),
    (r"questions\.amortizer\.heads", "aggregator.mlps"),
    (r"questions\.amortizer\.queries", "aggregator.question_encoder.learnable_prompts"),
    (r"questions\.amortizer\.t5", "aggregator.question_encoder"),
    (r"aggregator\.blocks", "aggregator.cross_attention_list"),
    (r"attention\.norm", "norm1"),
    (r"attention\.bank_norm", "norm_context"),
    (r"attention\.(query|key|value)", lambda match: f"attn.to_{match[1][0]}"),
    (r"attention\.output", "attn.to_out.0"),
    (r"feed_forward\.0", "norm2"),
    (r"feed_forward\.1", "mlp.net.0"),
    (r"feed_forward\.3", "mlp.net.3"),
    (r"codebook\.books", "vq.embedding.weight"),
    (r"codebook\.usage", "vq.ema_cluster_size"),
)
_SLOTS: Final = {
    "norm_weight": "0.weight",
    "norm_bias": "0.bias",
    "up": "1.weight",
    "up_bias": "1.bias",
    "down": "4.weight",
    "down_bias": "4.bias",
}


@torch.no_grad()
def load_released(model: MBC, state: Mapping[str, Tensor], adapter: Mapping[str, Tensor], origin: str) -> None:
    """Load a checkpoint's `state_dict` and its `lora_state_dict` from a file.

    Raises ModelError if a tensor is missing or has another shape; what the model has no use for is ignored.
    """
    ours = trained_state(model)
    stored = {name: found for name in ours if (found := _tensor(name, ours[name], state)) is not None}
    restore(ours, stored, origin)
    lora = adapter_state(model.base.model)
    theirs = {name: f"base_lm.{name.removeprefix('base_model.model.')}" for name in lora}
    restore(lora, {name: adapter[other] for name, other in theirs.items() if other in adapter}, origin)


def _tensor(name: str, like: Tensor, state: Mapping[str, Tensor]) -> Tensor | None:
    if slot := _SLOTS.get(name.removeprefix("prefix.")):
        names = [f"token_SA.mlp_layers.{number}.net.{slot}" for number in range(len(like))]
        each = [state[one] for one in names if one in state]
        # Theirs are linear layers, [outputs, inputs].
        return torch.stack([one.T if one.dim() == 2 else one for one in each]) if len(each) == len(like) else None
    for pattern, other in _NAMES:
        name = re.sub(pattern, other, name)
    found = state.get(name)
    return found.view_as(like) if found is not None and found.numel() == like.numel() else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[])
    args = parser.parse_args()
    stored = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
    config = load_preset(args.preset, [*OVERRIDES, *args.changes])
    model = build(config.model, load_pretrained(config.model))
    load_released(model, stored["state_dict"], stored["lora_state_dict"], str(args.checkpoint))
    save_model(model, config, args.out)


if __name__ == "__main__":
    main()
