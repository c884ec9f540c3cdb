"""The embedded model: it is there, it is small, and it finds the story that a question is about."""

import subprocess
import sys
from importlib.resources import files
from itertools import islice
from pathlib import Path

import pytest

from mbc_engine import MBC, Recall, ingest, load_model, open_bank
from mbc_engine.datasets.newswire import stories
from mbc_engine.metrics import exact_match
from tests.needs import embedded_encoder


@pytest.fixture(scope="module")
def mini() -> MBC:
    return load_model("mini")


def test_the_package_carries_at_most_40_megabytes() -> None:
    folder = Path(str(files("mbc_engine") / "models" / "mini"))
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 40_000_000


@embedded_encoder
def test_a_folder_of_unseen_stories_is_asked_and_names_its_sources(mini: MBC, tmp_path: Path) -> None:
    told = list(islice(stories("test", 16, seed=3), 16))
    folder = tmp_path / "stories"
    folder.mkdir()
    for story in told:
        (folder / f"{story.id}.txt").write_text(f"{story.title}. {story.text}")
    with open_bank(mini, tmp_path / "bank.mbc") as bank:
        list(ingest(mini, bank, [folder]))
        assert bank.sizes().codes == 16 * 180 * 9 // 8
        replies = Recall(mini, bank).ask([story.questions[0][0] for story in told])
    golds = [story.questions[0][1] for story in told]
    assert sum(exact_match(reply.answer or "", gold) for reply, gold in zip(replies, golds, strict=True)) >= 3
    read = [reply.read.text if reply.read else "" for reply in replies]
    assert sum(exact_match(text, gold) for text, gold in zip(read, golds, strict=True)) >= 6
    right = sum(Path(reply.sources[0].path).stem == story.id for reply, story in zip(replies, told, strict=True))
    assert right >= 13
    assert all(reply.sources[0].sentence for reply in replies)


@embedded_encoder
def test_without_an_adapter_nothing_is_imported_for_one() -> None:
    code = (
        "import sys; from mbc_engine import load_model; load_model('mini'); "
        "print({'peft', 'bitsandbytes'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@embedded_encoder
def test_answers_are_the_same_each_time(mini: MBC, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("The robotics club of Ashford honoured Maria Lopez on Friday.")
    with open_bank(mini, tmp_path / "bank.mbc") as bank:
        list(ingest(mini, bank, [tmp_path / "note.md"]))
        recall = Recall(mini, bank)
        first, second = (recall.ask(["Who was honoured?"])[0] for _ in range(2))
    assert (first.answer, first.sources) == (second.answer, second.sources)
