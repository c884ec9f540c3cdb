"""What must a prefix hold of a document, so that a frozen LM can read it?

    python recipes/smollm2/columns.py --data ../shared/data --out build/columns           # about three hours of one core
    python recipes/smollm2/columns.py --data ../shared/data --out build/columns --paragraphs 8 --asked 16     # a try
    python recipes/smollm2/columns.py --out build/columns --report

A memory of one paragraph, the one that is asked about. Its vectors are the base LM's own keys and values, of all layers
together, reduced by principal components: a linear map that needs no training. Either T *vectors* of the LM's width,
each the mean of a run of tokens, become T columns of the prefix; or each token becomes a column, of fewer *numbers*,
which may be rounded to a few bits. One KV-LoRA, trained on questions about paragraphs in all these forms in turn, reads
them. In *learned* forms, the linear map to the numbers and back is then trained too, to answer questions and to predict
what the same LM does from the paragraph's own keys and values (context distillation). Run again with the same folder, it
goes on where it stopped. The answers of the recipe are in `columns.tar.xz`.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import cycle, groupby, product
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from kit import Answers, documents_of
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.llama.modeling_llama import rotate_half

from mbc_engine import load_examples, load_preset
from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.evaluation.fine_tuning import fit
from mbc_engine.evaluation.statistics import interval
from mbc_engine.lm.base import BaseLM, KVPrefix, Targets, load_base
from mbc_engine.paper.kv_lora import WEIGHTS, adapter_state, add_kv_lora, load_adapter, save_adapter

DIM: Final = 576  # of a vector, the LM's width
ALL_NUMBERS: Final = 30 * 2 * 3 * 64  # of a token: the LM's layers, keys and values, heads and their width
RATE: Final = 5e-4
LEARNED_RATE: Final = 3e-4  # of linear maps
LEARNED_EPOCHS: Final = 2
MEASURED: Final = 50  # paragraphs, for the deviations of learned numbers
PARAGRAPHS_A_STEP: Final = 4
QUESTIONS_A_PARAGRAPH: Final = 8  # at most
WARMUP: Final = 20  # steps
SAMPLE: Final = 20_000  # tokens that the principal components are found from
ASKED_TOGETHER: Final = 32
DEVIATIONS: Final = 3.0  # a component is rounded within so many of its standard deviations
NONE: Final = "no paragraph"
TOKENS: Final = "tokens.json"  # of each paragraph asked about


@dataclass(frozen=True)
class Form:
    """How a paragraph is kept: in `columns` (0: one for each token) of `rank` numbers (0: all) of `bits` each."""

    columns: int = 0
    rank: int = DIM
    bits: int = 16
    is_learned: bool = False

    def __str__(self) -> str:
        if not self.rank:
            return "its own keys and values"
        numbers = f"{self.columns} vectors" if self.columns else f"{self.rank} numbers a token"
        return numbers + f", of {self.bits} bits" * (self.bits < 16) + ", learned" * self.is_learned

    def size(self, tokens: int) -> float:
        """Bytes of a paragraph of so many tokens."""
        return min(self.columns or tokens, tokens) * (self.rank or ALL_NUMBERS) * self.bits / 8


# 4 numbers for each of the 144 tokens that a paragraph has on average are as many as one vector has.
FORMS: Final = (
    Form(rank=0),
    *(Form(columns=count) for count in (0, 128, 64, 24, 12, 4)),
    *(Form(rank=4 * count) for count in (128, 64, 24, 12, 4)),
    *(Form(rank=rank, bits=4) for rank in (256, 96, 48)),
)
LEARNED: Final = (Form(rank=96, is_learned=True), Form(rank=48, is_learned=True), Form(columns=24, is_learned=True))
ROUNDED: Final = tuple(replace(form, bits=4) for form in LEARNED if not form.columns)


class LinearMap(NamedTuple):
    """From scaled states to numbers, [ALL_NUMBERS, rank], and back, [rank, ALL_NUMBERS]; the numbers' deviations, [rank]."""

    encode: Tensor
    decode: Tensor
    deviation: Tensor


class Reader:
    """A frozen base LM, and the linear map from its keys and values to their principal components and back."""

    def __init__(self, folder: Path) -> None:
        config = load_preset("smollm2-135m", []).model
        self.folder, self.lora = folder, config.lora.model_dump()
        self.base: BaseLM = load_base(config.base)
        self.base.eval()
        self.maps: dict[Form, LinearMap] = {}  # of learned forms

    def rotated(self, keys: Tensor, *, back: bool = False) -> Tensor:
        """Keys [L, heads, P, head_dim] at the positions 0 to P - 1, or of those positions taken `back` to none."""
        positions = torch.arange(keys.shape[2]).unsqueeze(0)
        cos, sin = self.base.model.get_decoder().rotary_emb(keys, positions)
        return keys * cos + rotate_half(keys) * (-sin if back else sin)

    @torch.no_grad()
    def states(self, text: str) -> Tensor:
        """Keys without their positions, and values, [1 + tokens, L, 2, width], after a line end that all begin with."""
        path = self.folder / "states" / f"{sha256(text.encode()).hexdigest()[:24]}.safetensors"
        if not path.exists():
            (tokens,) = self.base.prompt_tokenizer.tokens([f"\n{text}"], 600)
            prefix = self.base.read(tokens)
            both = torch.stack([self.rotated(prefix.keys[0], back=True), prefix.values[0]], 1)  # [L, 2, heads, P, dim]
            path.parent.mkdir(exist_ok=True)
            save_file({"states": both.permute(3, 0, 1, 2, 4).flatten(3).half().contiguous()}, path)
        return load_file(path)["states"]

    @torch.no_grad()
    def fit(self, texts: Sequence[str]) -> None:
        """Find the principal components of the states of texts, or load them."""
        path = self.folder / "components.safetensors"
        if not path.exists():
            states = [self.states(text) for text in texts]
            tokens = torch.cat([each[1:] for each in states])
            chosen = tokens[torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))[:SAMPLE]].float()
            mean = chosen.mean(0)
            scale = (chosen - mean).square().mean((0, 3), keepdim=True).sqrt()[0]  # of each layer's keys and values
            scaled = ((chosen - mean) / scale).flatten(1)
            torch.manual_seed(0)
            _, _, basis = torch.svd_lowrank(scaled, q=DIM + 24, niter=3)
            basis = basis[:, :DIM].contiguous()
            deviation = (scaled @ basis).std(0)
            kept = (scaled @ basis).square().sum(0).cumsum(0) / scaled.square().sum()
            print(
                "variance kept by components:", {n: round(float(kept[n - 1]), 3) for n in (16, 48, 96, 256, 512, DIM)}
            )
            start = states[0][0].float().contiguous()
            tensors = {"mean": mean, "scale": scale, "basis": basis, "deviation": deviation, "start": start}
            save_file(tensors, path)
        parts = load_file(path)
        self.mean, self.scale, self.basis = parts["mean"], parts["scale"], parts["basis"]
        self.deviation, self.start = parts["deviation"], parts["start"]

    def scaled(self, states: Tensor) -> Tensor:
        return ((states - self.mean) / self.scale).flatten(1)

    def components(self, rank: int) -> LinearMap:
        """The map to the first principal components."""
        basis = self.basis[:, :rank]
        return LinearMap(basis, basis.T, self.deviation[:rank])

    def prefix(self, text: str, form: Form) -> KVPrefix:
        """The prefix that a paragraph in a form becomes: a first column that all share, and its own."""
        states = self.states(text)[1:].float()
        if form.rank:
            used = self.maps[replace(form, bits=16)] if form.is_learned else self.components(form.rank)
            vectors = self.scaled(states) @ used.encode
            if form.columns:
                vectors = torch.stack([run.mean(0) for run in vectors.tensor_split(min(form.columns, len(vectors)))])
            if form.bits < 16:
                step = 2 * DEVIATIONS * used.deviation / 2**form.bits
                half = 2 ** (form.bits - 1)
                vectors = ((vectors / step).floor().clamp(-half, half - 1) + 0.5) * step
            restored = (vectors @ used.decode).unflatten(1, self.mean.shape)
            states = restored * self.scale + self.mean
        columns = torch.cat([self.start.unsqueeze(0), states])
        heads = self.base.shape.kv_heads
        keys, values = columns.unflatten(3, (heads, -1)).permute(2, 1, 3, 0, 4)  # each [L, heads, P, dim]
        return KVPrefix(self.rotated(keys).unsqueeze(0), values.unsqueeze(0))


def by_paragraph(examples: Sequence[QAExample]) -> list[list[QAExample]]:
    groups: dict[str, list[QAExample]] = {}
    for example in examples:
        groups.setdefault(example.text, []).append(example)
    return list(groups.values())


def train(reader: Reader, paragraphs: Sequence[Sequence[QAExample]]) -> None:
    """Train the KV-LoRA on one epoch of questions, a random form for each paragraph, or load it."""
    base, folder = reader.base, reader.folder / "adapter"
    add_kv_lora(base.model, **reader.lora)
    if (folder / WEIGHTS).exists():
        load_adapter(base.model, folder)
        return
    parameters = {name: value for name, value in base.named_parameters() if value.requires_grad}

    def loss(examples: Sequence[QAExample]) -> Tensor:
        return base.loss(
            reader.prefix(examples[0].text, random.choice(FORMS)).repeat(len(examples)), targets(base, examples)
        )

    def save() -> None:
        save_adapter(base.model, adapter_state(base.model), folder)

    optimise(parameters, RATE, paragraphs, loss, folder, save)


def learn(reader: Reader, paragraphs: Sequence[Sequence[QAExample]], form: Form) -> None:
    """Train the linear map of a form, from the principal components on, to be read by the KV-LoRA as it is, or load it."""
    base, folder = reader.base, reader.folder / str(form).replace(" ", "-").replace(",", "")
    base.model.requires_grad_(False)
    path = folder / "map.safetensors"
    if path.exists():
        reader.maps[form] = LinearMap(**load_file(path))
        return
    encode, decode, _ = (nn.Parameter(part.contiguous().clone()) for part in reader.components(form.rank))
    reader.maps[form] = LinearMap(encode, decode, reader.deviation[: form.rank])

    def loss(examples: Sequence[QAExample]) -> Tensor:
        text, asked = examples[0].text, targets(base, examples)

        def predicted(form: Form) -> Tensor:
            states = base._before(reader.prefix(text, form).repeat(len(examples)), asked)  # noqa: SLF001
            return base._logits(states).log_softmax(-1)  # noqa: SLF001

        with torch.no_grad():
            expected = predicted(FORMS[0])
        found = predicted(form)
        divergence = functional.kl_div(found, expected, log_target=True, reduction="batchmean")
        return functional.nll_loss(found, asked.targets) + divergence

    @torch.no_grad()
    def save() -> None:
        states = torch.cat([reader.states(examples[0].text)[1:] for examples in paragraphs[:MEASURED]])
        deviation = (reader.scaled(states.float()) @ encode).std(0)
        reader.maps[form] = LinearMap(encode.data, decode.data, deviation)
        save_file(reader.maps[form]._asdict(), path)

    optimise({"encode": encode, "decode": decode}, LEARNED_RATE, [*paragraphs] * LEARNED_EPOCHS, loss, folder, save)


def targets(base: BaseLM, examples: Sequence[QAExample]) -> Targets:
    asked, wanted = [f"\n{each.question}" for each in examples], [each.answers[0] for each in examples]
    return base.prompt_tokenizer.question_answer_targets(asked, wanted, question_window=128, answer_window=32)


def optimise(
    parameters: Mapping[str, nn.Parameter],
    rate: float,
    paragraphs: Sequence[Sequence[QAExample]],
    loss: Callable[[Sequence[QAExample]], Tensor],
    folder: Path,
    save: Callable[[], None],
) -> None:
    """Train on the questions of paragraphs, a few paragraphs a step, and save, or go on where it stopped."""
    optimiser = torch.optim.Adam(parameters.values(), lr=rate)
    total = -(-len(paragraphs) // PARAGRAPHS_A_STEP)

    def add_gradients(step: int) -> float:
        random.seed(step)
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / WARMUP, 2 * (total - step) / total)
        taken, losses = paragraphs[step * PARAGRAPHS_A_STEP : (step + 1) * PARAGRAPHS_A_STEP], 0.0
        for examples in taken:
            each = loss(examples[:QUESTIONS_A_PARAGRAPH]) / len(taken)
            each.backward()
            losses += each.item()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        return losses

    options: dict[str, Any] = {"steps": total, "batch_size": PARAGRAPHS_A_STEP, "save": save}
    for event in fit(add_gradients, parameters, optimiser, folder, **options):
        print(event, flush=True)


@torch.no_grad()
def answers(reader: Reader, examples: Sequence[QAExample], texts: Sequence[str], form: Form | None) -> list[str]:
    """Answers to questions, each from a paragraph in a form, or from the column that all share."""
    prefixes = {text: reader.prefix(text, form or FORMS[0]) for text in dict.fromkeys(texts)}
    if form is None:
        prefixes = {
            text: KVPrefix(whole.keys[..., :1, :], whole.values[..., :1, :]) for text, whole in prefixes.items()
        }
    order = sorted(range(len(examples)), key=lambda index: prefixes[texts[index]].length)
    answered: dict[int, str] = {}
    for _, same in groupby(order, key=lambda index: prefixes[texts[index]].length):
        rows = list(same)
        for start in range(0, len(rows), ASKED_TOGETHER):
            batch = rows[start : start + ASKED_TOGETHER]
            every = [prefixes[texts[index]] for index in batch]
            prefix = KVPrefix(torch.cat([each.keys for each in every]), torch.cat([each.values for each in every]))
            asked = [f"\n{examples[index].question}" for index in batch]
            answered |= zip(batch, reader.base.generate(prefix, asked), strict=True)
    return [answered[index] for index in range(len(examples))]


def ask(reader: Reader, examples: Sequence[QAExample], others: Sequence[str]) -> None:
    path = reader.folder / "answers.jsonl"
    done = {json.loads(line)["condition"] for line in path.open()} if path.exists() else set()
    written, texts = Answers(path), documents_of(examples)
    (reader.folder / TOKENS).write_text(json.dumps([len(reader.states(text)) - 1 for text in texts]))
    wrong = dict(zip(texts, cycle(others), strict=False))
    given = {"right": [each.text for each in examples], "other": [wrong[each.text] for each in examples]}
    for which, form in product(given, (None, *FORMS, *LEARNED, *ROUNDED)):
        condition = f"{form or NONE}, {which}"
        if condition not in done and (form or which == "right"):
            written.add(condition, examples, answers(reader, examples, given[which], form))


def report(folder: Path) -> Iterator[str]:
    """A Markdown table of the forms, their sizes and scores; F1 with a 95% interval, resampled by article."""
    scores: dict[str, list[tuple[float, float, str]]] = {}
    for row in map(json.loads, (folder / "answers.jsonl").open()):
        scores.setdefault(row["condition"], []).append((100 * row["f1"], 100 * row["exact_match"], row["article"]))
    tokens = json.loads((folder / TOKENS).read_text())
    yield "| a paragraph as | kB | EM | F1 | F1 with another |"
    yield "|---|---:|---:|---:|---:|"
    for form in (None, *FORMS, *LEARNED, *ROUNDED):
        if given := scores.get(f"{form or NONE}, right"):
            f1s, exact, articles = zip(*given, strict=True)
            f1, other = interval(f1s, articles), scores.get(f"{form}, other")
            size = f"{sum(map(form.size, tokens)) / len(tokens) / 1000:,.1f}" if form else "0"
            control = f"{sum(score for score, *_ in other) / len(other):.1f}" if other else ""
            row = f"| {form or NONE} | {size} | {sum(exact) / len(exact):.1f} | "
            yield row + f"{f1.value:.1f} ({f1.low:.1f} to {f1.high:.1f}) | {control} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that holds `qa`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--paragraphs", type=int, default=800, help="to train on")
    parser.add_argument("--asked", type=int, default=600, help="questions")
    parser.add_argument("--report", action="store_true", help="print a table of the answers and end")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.report:
        print(*report(args.out), sep="\n")
        return
    torch.set_num_threads(1)
    part, val = (load_examples(str(args.data / f"qa/{name}.jsonl.xz")) for name in ("squad_train_part", "squad_val"))
    random.seed(0)
    learned = by_paragraph(part)
    random.shuffle(learned)
    learned = learned[: args.paragraphs]
    tested = [each for group in by_paragraph(val)[::4] for each in evenly_spaced(group, 6)][: args.asked]
    reader = Reader(args.out)
    texts = documents_of([group[0] for group in learned])
    for text in (*texts, *documents_of(tested)):
        reader.states(text)  # of the base LM as it is, before it has a KV-LoRA
    reader.fit(texts[:200])
    train(reader, learned)
    reader.base.eval()
    for form in LEARNED:
        learn(reader, learned, form)
    ask(reader, tested, texts[:100])
    print(*report(args.out), sep="\n")


if __name__ == "__main__":
    main()
