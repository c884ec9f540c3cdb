"""A model does the same on a GPU as on the CPU: no step mixes devices, or reads GPU memory implicitly.

No GPU is needed: tensors only claim to be on one, and refuse what a GPU's would refuse.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from mbc_engine import Memory, ingest, open_bank
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.objective import Objective, clip_gradients
from mbc_engine.training.processes import processes_on
from mbc_engine.training.run_files import TrainingState, load_snapshot, save_snapshot
from mbc_engine.training.warm_start import fit_centring, fit_codebook

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
DEVICE_OF = Tensor.device.__get__
# Functions that give numbers, or a tensor on the CPU, wherever their argument is.
TO_HOST = (Tensor.cpu, Tensor.item, Tensor.tolist, Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__index__)
# Functions that may take tensors on both devices.
BETWEEN = (Tensor.to, Tensor.copy_, Tensor.__getitem__)


def is_on_gpu(value):
    """Whether a tensor claims to be on the GPU."""
    return isinstance(value, Tensor) and vars(value).get("is_on_gpu", False)


def marked(value, on_gpu, given):
    """The result of an operation, marked with its device; an argument that is returned keeps its own mark."""
    if not isinstance(value, Tensor):
        return value
    if is_on_gpu(value) != on_gpu and any(value is one for one in given):
        value = value.detach()
    value.is_on_gpu = on_gpu
    return value


def devices(values):
    """The devices named in an operation's arguments."""
    for value in values:
        if isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda")):
            yield torch.device(value)


class SimulatedGPU(TorchFunctionMode):
    """Computes on the CPU, and keeps track of what would be on the GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        values = tree_flatten((args, kwargs or {}))[0]
        on_gpu = any(is_on_gpu(value) for value in values)
        if func == DEVICE_OF:
            return GPU if on_gpu else CPU
        if func is Tensor.numpy and on_gpu:
            raise TypeError("A GPU's tensor has no NumPy array.")
        others = [value for value in values if isinstance(value, Tensor) and not is_on_gpu(value) and value.dim()]
        if on_gpu and others and func not in BETWEEN:
            raise RuntimeError(f"{func}: tensors on two devices.")
        args, kwargs = tree_map(
            lambda value: CPU if next(devices([value]), CPU) != CPU else value, (args, kwargs or {})
        )
        result = func(*args, **kwargs)
        if func in TO_HOST:
            return marked(result, False, values)
        if func is Tensor.copy_:
            return marked(result, is_on_gpu(args[0]), values)
        asked = next(devices(values), None)
        return tree_map(lambda value: marked(value, on_gpu if asked is None else asked != CPU, values), result)


def move(model):
    """Mark everything in a model as on the GPU."""
    for value in (*model.parameters(), *model.buffers()):
        value.is_on_gpu = True


def test_what_a_gpu_refuses_is_refused():
    with SimulatedGPU():
        on_cpu, on_gpu = torch.ones(2), torch.ones(2, device="cuda")
        assert (on_cpu.to(on_gpu.device).device, (on_gpu * 2)[0].device, on_gpu.cpu().device) == (GPU, GPU, CPU)
        for wrong in (lambda: torch.cat([on_gpu, on_cpu]), lambda: on_cpu.copy_(on_gpu) + on_gpu):
            with pytest.raises(RuntimeError, match="two devices"):
                wrong()
        with pytest.raises(TypeError):
            on_gpu.numpy()


@pytest.fixture(params=[("gpt2", "bert"), pytest.param(("llama", "t5"), marks=pytest.mark.slow)], ids="-".join)
def models(request, tiny):
    """The same model on the CPU and on the GPU."""
    changes = ["model.routing=true", "model.centring=true", "model.codebook.per_position=true"]
    one, other = (tiny.model(*request.param, *changes) for _ in range(2))
    move(other)
    return one, other


def test_memorising_and_asking_are_the_same_on_a_gpu(models, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ada.txt").write_text("Ada moved to Bergen in the spring. The river rose. " * 4)
    (tmp_path / "notes" / "hugo.txt").write_text("Hugo moved to Haifa.")
    questions = ["Where did Ada move?", "Who moved?"]

    def replies(model, name):
        with open_bank(model, tmp_path / name) as bank:
            assert list(ingest(model, bank, [tmp_path / "notes"], workers=0))
            memory = Memory(bank, model)
            for mode in ("flat", "hierarchical:2", "routed:2"):
                for reply in memory.ask(questions, read_mode=mode, with_codes=True, beams=2, max_new_tokens=3):
                    yield reply.text, reply.gain, [replace(own, bank="") for own in reply.sources]
                    yield from reply.codes.ravel().tolist()
            pieces: list[str] = []
            yield memory.ask(questions[:1], on_token=pieces.append, max_new_tokens=3)[0].text, pieces

    on_cpu, on_gpu = models
    expected = list(replies(on_cpu, "here.mbc"))
    with SimulatedGPU():
        assert next(on_gpu.parameters()).device == on_gpu.documents(["x"]).device == GPU
        assert list(replies(on_gpu, "there.mbc")) == expected


@pytest.mark.slow
def test_a_training_step_is_the_same_on_a_gpu(tiny, examples, tmp_path):
    changes = ["model.routing=true", "model.centring=true", "model.codebook.dead_threshold=0.3"]
    losses = ["training.losses.routing=1.0", "training.losses.reconstruction=1.0", "training.backprop_dropout=0.5"]
    config = tiny.config("gpt2", "bert", *changes, *losses, "training.bank_documents=2")

    def trained(model):
        data = TrainingSet(examples(20))
        states = TextStates(model.documents, data.documents), TextStates(model.questions, data.questions)
        objective = Objective(model.train(), data, *states, config.training, processes_on("cpu"))
        optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=0.01)
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1)
        fit_centring(model.documents.amortizer, states[0])
        yield fit_codebook(model, states[0])
        for _ in range(2):
            result = objective(data.batch(list(range(6))), generator)
            model.codebook.update_usage(result.quantized.codes)
            yield model.codebook.reset_dead(result.quantized.residuals, generator)
            result.total.backward()
            clip_gradients(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            yield result.figures
        save_snapshot(tmp_path / "snapshot", model, optimizer, TrainingState(2, 0.0, 0, True, 0, 0.0))
        yield load_snapshot(tmp_path / "snapshot", model, optimizer)

    on_cpu, on_gpu = (tiny.model("gpt2", "bert", *changes) for _ in range(2))
    move(on_gpu)
    expected = list(trained(on_cpu))
    with SimulatedGPU():
        assert list(trained(on_gpu)) == expected
