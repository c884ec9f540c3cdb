"""Texts processed one by one, by one thread or several."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mbc_engine.lm import encoders
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


def test_thread_count_set_elsewhere():
    torch.set_num_threads(2)
    used = []

    def work(texts):
        used.append(torch.get_num_threads())
        if len(used) == 1:  # before the threads for the others begin
            other = threading.Thread(target=torch.set_num_threads, args=(2,))
            other.start()
            other.join()
        return lengths(texts)

    list(one_by_one(work, TEXTS))
    torch.set_num_threads(1)
    assert used == [1] * len(TEXTS)


def test_autocast_is_inherited(threads):
    def work(texts):
        return torch.ones(2, 2) @ torch.ones(2, 2)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert {own.dtype for own in one_by_one(work, TEXTS)} == {torch.bfloat16}
    assert {own.dtype for own in one_by_one(work, TEXTS)} == {torch.float32}


def test_a_failure_ends_the_work(threads, monkeypatch):
    started, cancelled = [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *, cancel_futures):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            cancelled.set()
            super().shutdown()

    def work(texts):
        started.append(texts)
        if texts == ["bb"]:
            raise ValueError("bb")
        if len(started) > 1:
            cancelled.wait()
        return lengths(texts)

    monkeypatch.setattr(encoders, "ThreadPoolExecutor", Pool)
    with pytest.raises(ValueError, match="bb"):
        list(one_by_one(work, TEXTS))
    assert len(started) < len(TEXTS)
    assert torch.get_num_threads() == threads
