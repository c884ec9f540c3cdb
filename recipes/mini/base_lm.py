"""Stage 2 of `mini`: the base LM, a small GPT-2 pretrained on the corpus of stage 1.

    python recipes/mini/base_lm.py --corpus build/mini --out build/mini/base

Writes a folder that `AutoModelForCausalLM` and `AutoTokenizer` open. Interrupted, it goes on from its last checkpoint
when run again. Runs unchanged on a GPU (`--device cuda`).
"""

import argparse
import json
import math
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

END = "<|endoftext|>"


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then half a cosine down to a tenth of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


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


class Checkpoint:
    """Weights, Adam moments and the step in one safetensors file, replaced atomically."""

    def __init__(self, path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.path, self.model, self.optimizer = path, model, optimizer

    def save(self, step: int) -> None:
        tensors = {f"model.{name}": value for name, value in self.model.named_parameters()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
        partial = self.path.with_suffix(".partial")
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, partial, {"step": str(step)})
        partial.rename(self.path)

    def load(self) -> int:
        """The step to go on from, 0 without a checkpoint."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        tensors = load_file(self.path)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(tensors[f"model.{name}"])
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        return int(header["__metadata__"]["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--part", type=int, default=16, help="sequences in one forward pass")
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    tokens = np.memmap(args.corpus / "tokens.bin", dtype=np.uint16, mode="r")
    tokenizer = Tokenizer.from_file(str(args.corpus / "tokenizer.json"))
    end = tokenizer.token_to_id(END)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=512,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
        # The fused form of GPT-2's own activation, several times faster on a CPU; so is plain attention at this size.
        activation_function="gelu_pytorch_tanh",
        attn_implementation="eager",
    )
    model = GPT2LMHeadModel(config).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.05)
    checkpoint = Checkpoint(args.out / "training.safetensors", model, optimizer)
    first = checkpoint.load()

    started, total = time.monotonic(), 0.0
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.learning_rate, warmup=100)
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

    model.save_pretrained(args.out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END, model_max_length=512
    ).save_pretrained(args.out)
    shutil.copy(args.corpus / "tokenizer.json", args.out / "tokenizer.json")


if __name__ == "__main__":
    main()
