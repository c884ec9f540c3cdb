"""The embedded model: it is there, it is small, and it finds the story that a question is about."""

import shutil
import subprocess
import sys
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Answer, Memory, RetrieverReader, ingest, load_model, open_bank
from mbc_engine.datasets.newswire import stories
from mbc_engine.metrics import compare
from tests.needs import embedded_encoder, large_reader


@pytest.fixture(scope="module")
def mini() -> RetrieverReader:
    model = load_model("mini", reader="small")
    assert isinstance(model, RetrieverReader)
    return model


def test_the_package_carries_at_most_15_megabytes() -> None:
    folder = Path(str(files("mbc_engine") / "models" / "mini"))
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 15_000_000


@pytest.mark.slow
@embedded_encoder
@large_reader
def test_the_large_reader_reads_better_and_is_taken_first(mini: RetrieverReader) -> None:
    large = load_model("mini")
    assert isinstance(large, RetrieverReader)
    assert (large.reader_settings.name, large.fingerprints()) == ("large", mini.fingerprints())  # they share banks
    read = list(islice(stories("test", 10, seed=3), 10))
    asked = [(question, gold, story.text) for story in read for question, gold in story.questions]
    questions, texts = [question for question, *_ in asked], [[text] for *_, text in asked]

    def right(model: RetrieverReader) -> int:
        spans = model.reader.spans(questions, texts)
        pairs = zip(spans, asked, strict=True)
        return sum(compare(own.text if own else "", [gold]).exact_match for (own,), (_, gold, _) in pairs)

    assert right(large) >= max(36, right(mini))


@embedded_encoder
def test_a_folder_of_unseen_stories_is_asked_and_names_its_sources(mini: RetrieverReader, tmp_path: Path) -> None:
    read = list(islice(stories("test", 5, seed=3), 5))
    asked = [(question, gold, story.id) for story in read for question, gold in story.questions]
    questions = [question for question, *_ in asked]
    folder = tmp_path / "stories"
    folder.mkdir()
    for story in read:
        (folder / f"{story.id}.txt").write_text(f"{story.title}. {story.text}")
    with open_bank(mini, tmp_path / "bank.mbc") as bank:
        list(ingest(mini, bank, [folder]))
        assert bank.totals().chunks == 5
        assert bank.sizes().codes == 5 * 24 * 9 // 8
        memory = Memory(bank, mini)
        replies = memory.ask(questions, min_confidence=0)
        shutil.rmtree(folder)
        without_files = memory.ask(questions, min_confidence=0)
    right = sum(
        compare(reply.text or "", [gold]).exact_match for reply, (_, gold, _) in zip(replies, asked, strict=True)
    )
    found = sum(Path(reply.sources[0].path).stem == story for reply, (*_, story) in zip(replies, asked, strict=True))
    assert (len(asked), right >= 14, found >= 19) == (20, True, True), (right, found)
    assert all(own.sentence for reply in replies for own in reply.sources)
    assert {own.text_from for reply in replies for own in reply.sources} == {"file"}
    assert {own.text_from for reply in without_files for own in reply.sources} == {"bank"}
    assert list(map(without_text_from, replies)) == list(map(without_text_from, without_files))


def without_text_from(reply: Answer) -> tuple[Any, ...]:
    """What a reply says, without where the text came from."""
    return reply.text, reply.confidence, [(own.path, own.share, own.sentence, own.passage) for own in reply.sources]


@embedded_encoder
def test_asking_imports_no_library_that_it_can_do_without(mini: RetrieverReader, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hugo moved to Haifa in the spring.")
    with open_bank(mini, tmp_path / "b.mbc") as bank:
        list(ingest(mini, bank, [tmp_path / "a.txt"]))
    heavy = {"transformers", "peft", "bitsandbytes", "huggingface_hub.file_download", "torch.distributed.tensor"}
    code = (
        "import atexit, sys; from mbc_cli.__main__ import main; "
        f"atexit.register(lambda: print({heavy} & set(sys.modules))); "
        "sys.argv[1:] = ['ask', 'Where did Hugo move?', '--bank', 'b.mbc']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("Haifa") and done.stdout.endswith("set()\n")


@embedded_encoder
def test_answers_are_the_same_each_time(mini: RetrieverReader, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("The robotics club of Ashford honoured Maria Lopez on Friday.")
    with open_bank(mini, tmp_path / "bank.mbc") as bank:
        list(ingest(mini, bank, [tmp_path / "note.md"]))
        memory = Memory(bank, mini)
        first, second = (memory.ask(["Who was honoured?"], min_confidence=0)[0] for _ in range(2))
    assert first.text == "Maria Lopez"
    assert (first.text, first.confidence, first.sources) == (second.text, second.confidence, second.sources)
