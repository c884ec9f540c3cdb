"""Snapshots: everything that changes in training, and nothing that is frozen."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mbc_engine.errors import ModelError
from mbc_engine.paper.checkpoint import trained_state
from mbc_engine.training.run_files import TrainingState, load_snapshot, save_snapshot

STATE = TrainingState(step=7, best_loss=2.5, best_epoch=1, is_quantising=True, events=1234, seconds=5.75)


def trained(tiny, base, encoder, steps=2):
    """A model and its optimiser after steps with random gradients; the router never gets one."""
    model = tiny.model(base, encoder, "model.routing=true", "model.centring=true")
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    torch.manual_seed(3)
    for _ in range(steps):
        for value in parameters:
            value.grad = None if value is model.router.weight else torch.randn_like(value)
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(("base", "encoder"), [("gpt2", "bert"), ("llama", "t5")])
def test_round_trip(tiny, tmp_path, base, encoder):
    model, optimizer = trained(tiny, base, encoder)
    with torch.no_grad():
        model.codebook.usage.uniform_()
        model.documents.amortizer.centring.mean.normal_()
    save_snapshot(tmp_path / "s.safetensors", model, optimizer, STATE)
    again, fresh = trained(tiny, base, encoder, steps=0)
    again.is_quantising = False
    assert load_snapshot(tmp_path / "s.safetensors", again, fresh) == STATE
    assert again.is_quantising
    saved, loaded = trained_state(model), trained_state(again)
    assert all(torch.equal(value, loaded[name]) for name, value in saved.items())
    for (name, value), other in zip(model.base.named_parameters(), again.base.parameters(), strict=True):
        assert torch.equal(value, other), name
    states = optimizer.state_dict()["state"], fresh.state_dict()["state"]
    assert states[0].keys() == states[1].keys()
    for index, state in states[0].items():
        assert state.keys() == states[1][index].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(value, states[1][index][name]) for name, value in state.items())


@pytest.mark.parametrize("change", [{"step": "(" * 100_000}, {"step": "'x'"}, {"step": "print()"}, None])
def test_damaged_snapshots(tiny, tmp_path, change):
    model, optimizer = trained(tiny, "gpt2", "bert")
    path = tmp_path / "s.safetensors"
    save_snapshot(path, model, optimizer, STATE)
    with safe_open(path, "pt") as file:
        notes = file.metadata()
    tensors = load_file(path)
    if change is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        save_file(tensors, path, notes | change)
    with pytest.raises(ModelError, match="is damaged"):
        load_snapshot(path, model, optimizer)
