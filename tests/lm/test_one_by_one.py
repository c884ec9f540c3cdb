"""Texts processed one by one, by one thread or several."""

import threading

import pytest
import torch

from mbc_engine.lm.encoders import one_by_one

TEXTS = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]


@pytest.fixture(params=[1, 3])
def threads(request):
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


def lengths(texts):
    return torch.tensor([len(text) for text in texts])


def test_order(threads):
    assert [own.tolist() for own in one_by_one(lengths, TEXTS)] == [[1], [2], [3], [4], [5], [6]]
    assert list(one_by_one(lengths, [])) == []
    assert torch.get_num_threads() == threads


def test_one_thread_and_no_gradient(threads):
    used = set()

    def work(texts):
        assert torch.get_num_threads() == 1
        assert not torch.is_grad_enabled()
        used.add(threading.current_thread())
        return lengths(texts)

    list(one_by_one(work, TEXTS))
    assert (used == {threading.current_thread()}) == (threads == 1)


def test_autocast_is_inherited(threads):
    def work(texts):
        return torch.ones(2, 2) @ torch.ones(2, 2)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert {own.dtype for own in one_by_one(work, TEXTS)} == {torch.bfloat16}
    assert {own.dtype for own in one_by_one(work, TEXTS)} == {torch.float32}


def test_a_failure_ends_the_work(threads):
    def work(texts):
        if texts == ["bb"]:
            raise ValueError("bb")
        return lengths(texts)

    with pytest.raises(ValueError, match="bb"):
        list(one_by_one(work, TEXTS * 100))
    assert torch.get_num_threads() == threads
