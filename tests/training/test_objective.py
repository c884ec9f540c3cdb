"""The objective and a step by hand, and what they do and do not train."""

import pytest
import torch

from mbc_engine.config import TrainingSettings
from mbc_engine.events import TrainStep
from mbc_engine.lm.base import Targets
from mbc_engine.paper.amortizer import document_variance
from mbc_engine.paper.builder import build, load_pretrained
from mbc_engine.paper.checkpoint import trained_state
from mbc_engine.training import objective as optimising
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.objective import Objective, learning_rate
from mbc_engine.training.processes import processes_on

ROUTED = ["model.routing=true", "training.losses.routing=0.5"]
BATCH = [0, 3, 4, 7]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def make(tiny, examples):
    def make(base="gpt2", encoder="bert", *overrides):
        overrides = ("model.codebook.per_position=true", *overrides)
        model = tiny.model(base, encoder, *overrides)
        data = TrainingSet([*examples(8), examples(1)[0]])
        with torch.no_grad():  # a code near each document's vectors, so that no two documents are alike
            vectors = model.documents(data.documents)
            model.codebook.books.copy_(vectors.transpose(0, 1) + 0.1 * vectors.std(0)[:, None] * torch.randn(8, 32))
        states = TextStates(model.documents, data.documents), TextStates(model.questions, data.questions)
        return Objective(model, data, *states, tiny.config(base, encoder, *overrides).training, processes_on("cpu"))

    return make


def question_loss(objective, banks, batch):
    """Each question alone with a bank of its own [N, D], the mean over all answer tokens."""
    model, data, settings = objective.model, objective.data, objective.settings
    total, count = 0.0, 0
    for index, bank in zip(batch, banks, strict=True):
        modulation = model.aggregator(model.questions([data.questions[index]]), bank.unsqueeze(0)).modulation
        windows = {"question_window": settings.question_window, "answer_window": settings.answer_window}
        targets = model.base.prompt_tokenizer.question_answer_targets(
            [data.questions[index]], [data.answers[index]], **windows
        )
        tokens = int(targets.target_mask.sum())
        total += float(model.base.loss(model.prefix(modulation), targets)) * tokens
        count += tokens
    return total / count


@pytest.mark.parametrize("encoder", ["bert", "t5"])
@torch.no_grad()
def test_loss_by_hand(make, encoder):
    objective = make("gpt2", encoder, "training.losses.vq=0.5")
    losses = objective(objective.data.batch(BATCH), generator())
    vectors = objective.model.documents([objective.data.documents[index] for index in BATCH])
    quantized = objective.model.codebook.quantize(vectors)
    expected = question_loss(objective, [quantized.vectors.flatten(0, 1)] * 4, BATCH)
    assert losses.figures["question_loss"] == pytest.approx(expected, rel=1e-4)
    assert losses.figures["vq_loss"] == pytest.approx(quantized.loss.item(), rel=1e-4)
    assert losses.total.item() == pytest.approx(
        losses.figures["question_loss"] + 0.5 * losses.figures["vq_loss"], rel=1e-5
    )
    assert (losses.figures["route_loss"], losses.figures["reconstruction_loss"]) == (0.0, 0.0)
    assert "route_accuracy" not in losses.figures
    assert losses.figures["document_variance"] == pytest.approx(document_variance(vectors), rel=1e-4)
    assert torch.equal(losses.quantized.codes, quantized.codes)
    torch.testing.assert_close(losses.quantized.residuals[0], vectors, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_distillation_is_from_what_the_document_gives(make):
    """A prefix of the document's own keys and values diverges by nothing, one of another document by something."""
    objective = make("llama", "bert", "training.losses.distillation=0.5", "training.losses.vq=0")
    losses, base = objective(objective.data.batch(BATCH), generator()), objective.model.base
    figures = losses.figures
    assert losses.total.item() == pytest.approx(figures["question_loss"] + 0.5 * figures["distillation_loss"], rel=1e-5)
    read, texts = (objective._answers(BATCH[:1], reads=reads) for reads in (True, False))
    given = read.ids.shape[1] - texts.ids.shape[1]  # begins the same, then the document and a line end
    begin = len(base.prompt_tokenizer.tokens([""])[0]) if not base.prompt_tokenizer._begin else 1
    prefix = base.read(read.ids[0, : given + begin].tolist())
    rest = Targets(read.ids[:, given + begin :], read.mask[:, given + begin :], read.target_mask[:, given + begin :])
    assert base.divergence(prefix, rest, read).item() == pytest.approx(0, abs=1e-5)
    other = base.read(list(reversed(read.ids[0, : given + begin].tolist())))
    assert base.divergence(other, rest, read).item() > 1e-4
    assert base.divergence(prefix, rest, read).item() < figures["distillation_loss"]


@pytest.mark.parametrize(("most", "written_back"), [(0, 3), (2, 2), (9, 3)])
@torch.no_grad()
def test_routing_and_reconstruction_by_hand(make, most, written_back):
    weights = ["training.losses.reconstruction=0.25", "training.losses.reconstruction_tokens=5"]
    weights.append(f"training.losses.reconstruction_documents={most}")
    objective = make("llama", "bert", *ROUTED, *weights)
    model, data = objective.model, objective.data
    model.is_quantising = False  # untrained documents share their codes, and their scores would tie
    losses = objective(data.batch([0, 3, 8, 7]), generator())  # questions 0 and 8 are about the same document
    documents = [data.documents[index] for index in (0, 3, 7)]
    memory = model.documents(documents)
    question = model.questions([data.questions[index] for index in (0, 3, 8, 7)])
    scores = torch.einsum("btd,de,nte->bn", question, model.router.weight, memory) * 10 / (4 * 32)
    own = [0, 1, 0, 2]
    expected = -scores.log_softmax(-1)[range(4), own].mean()
    assert losses.figures["route_loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert losses.figures["route_accuracy"] == pytest.approx(
        (scores.argmax(-1) == torch.tensor(own)).float().mean().item()
    )
    texts = model.base.prompt_tokenizer.text_targets(documents[:written_back], window=5)
    written = model.base.loss(model.prefix(memory[:written_back]), texts)
    assert losses.figures["reconstruction_loss"] == pytest.approx(written.item(), rel=1e-4)
    total = (
        losses.figures["question_loss"]
        + losses.figures["vq_loss"]
        + 0.5 * losses.figures["route_loss"]
        + 0.25 * losses.figures["reconstruction_loss"]
    )
    assert losses.total.item() == pytest.approx(total, rel=1e-5)


def banks_read(objective, batch, seed=0):
    """What each question of a batch read [K, k, T, D], and the batch's documents [U, T, D]."""
    seen = []
    hook = objective.model.aggregator.register_forward_hook(lambda _, given, __: seen.append(given[1]))
    objective(objective.data.batch(batch), generator(seed))
    hook.remove()
    vectors = objective.model.documents([objective.data.documents[index] for index in batch])
    return seen[0].unflatten(1, (-1, 4)), objective.model.codebook.quantize(vectors).vectors


@torch.no_grad()
def test_limited_bank_by_routing(make):
    objective = make("gpt2", "bert", *ROUTED, "training.bank_documents=3")
    batch = list(range(8))
    banks, memory = banks_read(objective, batch)
    scores = objective.model.router.scores(objective.model.questions(objective.data.questions[:8]), memory)
    assert banks.shape == (8, 3, 4, 32)
    for index in batch:
        others = [place for place in scores[index].argsort(descending=True).tolist() if place != index]
        torch.testing.assert_close(banks[index], memory[[index, *others[:2]]], rtol=1e-4, atol=1e-5)


class LeafStates:
    """Token states that are leaves, so that their gradients show which texts were trained on."""

    def __init__(self, count, width):
        torch.manual_seed(2)
        self.leaves = [torch.randn(3, width, requires_grad=True) for _ in range(count)]

    def states(self, chosen):
        return torch.stack([self.leaves[index] for index in chosen]), torch.ones(len(chosen), 3, dtype=torch.int64)


def trained_on(objective, count):
    """Losses of the first `count` questions, and which documents had a gradient."""
    leaves = LeafStates(8, 24)
    objective.documents = leaves
    torch.manual_seed(11)
    losses = objective(objective.data.batch(list(range(count))), generator())
    losses.total.backward()
    return losses, [index for index, leaf in enumerate(leaves.leaves) if leaf.grad is not None and leaf.grad.any()]


@pytest.mark.parametrize(
    ("share", "documents", "expected", "centring"),
    [(0.0, 8, 8, "true"), (0.25, 8, 6, "true"), (0.75, 8, 2, "false"), (0.5, 2, 1, "false"), (0.9, 1, 1, "true")],
)
def test_backprop_dropout(make, share, documents, expected, centring):
    # Routed, because the flat read would not notice documents out of order.
    objective = make("gpt2", "bert", *ROUTED, f"training.backprop_dropout={share}", f"model.centring={centring}")
    losses, chosen = trained_on(objective, documents)
    assert len(chosen) == expected
    whole, _ = trained_on(make("gpt2", "bert", *ROUTED, f"model.centring={centring}"), documents)
    assert losses.total.item() == pytest.approx(whole.total.item(), rel=1e-5)  # forward, nothing changes


@pytest.mark.parametrize(
    ("base", "encoder", "frozen", "precision"), [("gpt2", "bert", "false", "float32"), ("llama", "t5", "true", "bf16")]
)
def test_trained_parameters(make, base, encoder, frozen, precision):
    frozen_sides = [f"model.documents.frozen={frozen}", f"model.questions.frozen={frozen}"]
    objective = make(base, encoder, *frozen_sides, *ROUTED, "model.centring=true", "model.prefix.slot_embedding=true")
    model = objective.model.train()
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    wanted = set(trained_state(model)) | {
        f"base.{name}" for name, value in model.base.named_parameters() if value.requires_grad
    }
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=0.01)
    # Factors that start at zero hide the gradient of what they multiply for one step.
    for step in range(3):
        torch.manual_seed(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            losses = objective(objective.data.batch(list(range(8))), generator())
        model.codebook.update_usage(losses.quantized.codes)
        losses.total.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert losses.total.isfinite()
    after = model.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    unused = {name for name in wanted if ".pooler." in name}  # a BERT's pooler reads nothing into its token states
    tied = {name for name in changed if "embed_tokens" in name and frozen == "false"}  # T5's, stored as `shared`
    assert changed - tied == wanted - unused
    assert bool(unused) == (encoder == "bert" and frozen == "false")
    assert not any("lora_" not in name for name in changed if name.startswith("base."))


def test_accumulated_gradient(tiny, start, examples, monkeypatch):
    """Three questions in two parts: two thirds of the first part's loss and one of the second's, each its own bank."""
    config = tiny.config("gpt2", "bert", "training.batch_size=3", "training.accumulate=2", "training.reset_codes=false")
    seen = []

    def keep(parameters, norm):
        seen.append({str(tuple(value.shape)): value.grad.clone() for value in parameters if value.grad is not None})

    monkeypatch.setattr(optimising, "clip_gradients", keep)
    start(config, "run", until=lambda event: isinstance(event, TrainStep))

    data = TrainingSet(examples(20))
    torch.manual_seed(0)
    model = build(config.model, load_pretrained(config.model)).train()
    states = TextStates(model.documents, data.documents), TextStates(model.questions, data.questions)
    objective = Objective(model, data, *states, config.training, processes_on("cpu"))
    order = next(data.epoch(0, 3, seed=0)).examples
    torch.manual_seed(0)  # the first step's
    generator = torch.Generator()
    first, last = (objective(data.batch(part), generator).total for part in (order[:2], order[2:]))
    total = first * (2 / 3) + last * (1 / 3)
    total.backward()
    (gradients,) = seen
    torch.testing.assert_close(gradients[str(tuple(model.prefix.up.shape))], model.prefix.up.grad)
    torch.testing.assert_close(gradients[str(tuple(model.codebook.books.shape))], model.codebook.books.grad)


@pytest.mark.parametrize(
    ("total", "warmup", "decay", "expected"),
    [
        (1000, 0.01, 0.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1]),
        (10, 0.0, 0.0, [1, 1]),
        (3, 0.01, 0.0, [1, 1, 1]),
        (10, 0.2, 0.4, [0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]),
    ],
)
def test_learning_rates_rise_and_fall(total, warmup, decay, expected):
    settings = TrainingSettings(learning_rate=2e-5, warmup=warmup, decay=decay)
    assert [learning_rate(step, total, settings) / 2e-5 for step in range(len(expected))] == pytest.approx(expected)
