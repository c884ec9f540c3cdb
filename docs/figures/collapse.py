"""Codes in use during two short training runs that differ only in the online reset (paper, section 4.4.4)."""

import runpy
import tempfile
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt
import torch
from look import BLUE, FAINT, RED
from matplotlib.figure import Figure
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from mbc_engine import load_preset, train
from mbc_engine.events import TrainStep
from mbc_engine.lm.packaged import locate

# The paper's codebook: a single one of 512 codes, used from the first step. A step's bank is its batch.
CHANGES: Final = (
    "model.codebook.levels=1",
    "model.codebook.per_position=false",
    "training.quantise_from=0",
    "training.bank_documents=0",
    "training.batch_size=16",
    "training.epochs=8",
    "training.precision=float32",
    "training.losses.reconstruction=0",
    "model.lora.layers=4",
)


def draw() -> Figure:
    """Train on the questions of a hundred stories, with and without the reset."""
    with tempfile.TemporaryDirectory() as folder:
        curves = {resets: perplexities(Path(folder), 100, CHANGES, resets=resets) for resets in (True, False)}
    figure, axes = plt.subplots(figsize=(8.6, 3.1), layout="constrained")
    for resets, colour, name in ((True, BLUE, "with the reset"), (False, RED, "without")):
        curve = curves[resets]
        print(
            f"{name}: {curve[0]:.0f} codes at first, at most {max(curve):.0f}, {curve[-1]:.0f} after {len(curve)} steps"
        )
        axes.plot(range(1, len(curve) + 1), curve, color=colour, lw=1.6)
        end = (len(curve), curve[-1])
        axes.annotate(name, end, (5, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False)
    axes.axhline(512, color=FAINT, lw=0.8, ls=(0, (4, 3)))
    axes.set(xlim=(0, len(curve) * 1.13), ylim=(0, 540), xlabel="training step")
    axes.set_title("Codes in effect in use (perplexity), of 512")
    return figure


def perplexities(folder: Path, count: int, changes: tuple[str, ...], *, resets: bool) -> list[float]:
    """The perplexity of code usage after each training step, with an untrained base LM."""
    newswire = runpy.run_path(str(Path(__file__).parents[2] / "recipes/newswire/generate.py"))
    base = untrained_base(folder / "base", seed=0)
    own = "model.prefix.value_scale=false"  # an untrained base LM has no values worth matching
    config = load_preset(
        "smollm2-135m", [own, *changes, f"model.base={base}", f"training.reset_codes={str(resets).lower()}"]
    )
    data = list(newswire["examples"](newswire["stories"]("train", count)))
    events = train(config, data, [], folder / f"{resets}", cache=folder / "states")
    return [event.perplexity for event in events if isinstance(event, TrainStep)]


def untrained_base(folder: Path, seed: int) -> Path:
    """A GPT-2 of 4 layers and width 192, with random weights and MiniLM's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(locate("sentence-transformers/all-MiniLM-L6-v2"), eos_token="[SEP]")  # noqa: S106
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=512, n_embd=192, n_layer=4, n_head=6))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
