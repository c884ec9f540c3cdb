"""Questions answered in a thread: what is told of the model and its bank."""

import queue
import threading
from pathlib import Path
from typing import Any

from mbc_cli.tui.jobs.answering import Answering, ModelLoading, ModelMissing, ModelReady
from mbc_cli.tui.state import Places


def test_a_bank_that_comes_later_is_told_without_loading_the_model_again(
    places: Places, bank: Path, home: Path, make_bank: Any, record: Any
) -> None:
    messages: queue.Queue[object] = queue.Queue()
    away = bank.rename(home / "away.mbc")
    make_bank(bank.name, record("/a.txt", "a"))  # of another model
    answering = Answering(places, messages.put)
    thread = threading.Thread(target=answering.run)
    thread.start()
    try:
        answering.load()
        assert [type(messages.get(timeout=60)) for _ in range(2)] == [ModelLoading, ModelMissing]
        away.replace(bank)
        answering.load()
        assert isinstance(messages.get(timeout=60), ModelReady)
    finally:
        answering.stop()
        thread.join()
    assert messages.empty()
