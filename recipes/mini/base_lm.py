"""The base LM of the preset `mini`, a small GPT-2 pretrained on what `corpus.py` wrote.

    python recipes/mini/base_lm.py --corpus build/mini --out build/mini/base

Writes a folder that `AutoModelForCausalLM` and `AutoTokenizer` open. Interrupted, it goes on from its last checkpoint
when run again. Runs unchanged on a GPU (`--device cuda`).
"""

import argparse
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from corpus import END
from options import begin, stage_parser
from tokenizers import Tokenizer
from torch.nn import functional
from training import Checkpoint, warm_cosine
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

POSITIONS = 512


def batch(tokens: np.ndarray, step: int, seed: int, size: int, window: int) -> torch.Tensor:
    """Random windows [size, window + 1]; the same for the same step and seed."""
    random = np.random.default_rng((seed, step))
    starts = random.integers(0, len(tokens) - window - 1, size)
    return torch.from_numpy(np.stack([tokens[start : start + window + 1] for start in starts]).astype(np.int64))


def next_token_loss(model: GPT2LMHeadModel, ids: torch.Tensor, rows: int = 512) -> torch.Tensor:
    """Mean loss of [B, S + 1]; the logits of a few rows at a time, since all of them do not fit a CPU's cache."""
    states = model.transformer(ids[:, :-1], use_cache=False).last_hidden_state.flatten(0, 1)
    targets = ids[:, 1:].flatten()
    losses = [
        functional.cross_entropy(model.lm_head(state).float(), target, reduction="sum")
        for state, target in zip(states.split(rows), targets.split(rows), strict=True)
    ]
    return torch.stack(losses).sum() / len(targets)


def small_gpt2(tokenizer: Tokenizer, *, width: int, layers: int, heads: int) -> GPT2LMHeadModel:
    """An untrained one."""
    end = tokenizer.token_to_id(END)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=POSITIONS,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
        # The fused form of GPT-2's own activation, several times faster on a CPU; so is plain attention at this size.
        activation_function="gelu_pytorch_tanh",
        attn_implementation="eager",
    )
    return GPT2LMHeadModel(config)


def learn(model: GPT2LMHeadModel, args: argparse.Namespace) -> None:
    """Train from the last checkpoint on, saving as it goes."""
    tokens = np.memmap(args.corpus / "tokens.bin", dtype=np.uint16, mode="r")
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.05)
    checkpoint = Checkpoint(args.out / "training.safetensors", dict(model.named_parameters()), optimizer)
    first = checkpoint.load() or 0
    started, total = time.monotonic(), 0.0
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * warm_cosine(step, args.steps, warmup=100, least=0.1)
        ids = batch(tokens, step, args.seed, args.batch, args.window).to(args.device)
        for part in ids.split(args.part):
            with torch.autocast(args.device, torch.bfloat16):
                loss = next_token_loss(model, part) * (len(part) / len(ids))
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 50 == 0:
            rate = (step + 1 - first) * args.batch * args.window / (time.monotonic() - started)
            print(f"step {step + 1}/{args.steps}  loss {total / 50:.3f}  {rate:,.0f} tokens/s", flush=True)
            total = 0.0
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            checkpoint.save(step + 1)


def main() -> None:
    parser = stage_parser(__doc__, "out", "threads", "device", "seed")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--part", type=int, default=16, help="sequences in one forward pass")
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--save-every", type=int, default=250)
    args = begin(parser)

    tokenizer = Tokenizer.from_file(str(args.corpus / "tokenizer.json"))
    model = small_gpt2(tokenizer, width=args.width, layers=args.layers, heads=args.heads).to(args.device)
    learn(model, args)
    model.save_pretrained(args.out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END, model_max_length=POSITIONS
    ).save_pretrained(args.out)
    shutil.copy(args.corpus / "tokenizer.json", args.out / "tokenizer.json")


if __name__ == "__main__":
    main()
