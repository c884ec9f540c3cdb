"""The built-in model: it is there, it is small, and it finds the story that a question is about."""

from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Memory, ingest, load_model, open_bank
from mbc_engine.metrics import compare
from tests.needs import embedded_encoder, large_reader
from tests.newswire import stories


@pytest.fixture(scope="module")
def mini():
    return load_model("mini", reader="small")


def test_the_package_has_at_most_15_megabytes():
    folder = Path(str(files("mbc_engine") / "models" / "mini"))
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 15_000_000


@pytest.mark.slow
@embedded_encoder
@large_reader
def test_the_large_reader_is_better_and_the_default(mini):
    large: Any = load_model("mini")
    assert (large.reader_settings.name, large.fingerprints()) == ("large", mini.fingerprints())  # they share banks
    pairs = [(story.text, *pair) for story in islice(stories("test", 5, seed=3), 5) for pair in story.questions]

    def right(model):
        spans = model.reader.spans([question for _, question, _ in pairs], [[text] for text, *_ in pairs])
        return sum(
            compare(span.text if span else "", [gold]).exact_match
            for (span,), (*_, gold) in zip(spans, pairs, strict=True)
        )

    assert right(large) >= max(18, right(mini))


@embedded_encoder
def test_unseen_stories(mini, tmp_path):
    folder = tmp_path / "stories"
    folder.mkdir()
    sample = list(islice(stories("test", 5, seed=3), 5))
    for story in sample:
        (folder / f"{story.id}.txt").write_text(f"{story.title}. {story.text}")
    golds = [(gold, story.id) for story in sample for _, gold in story.questions]
    questions = [question for story in sample for question, _ in story.questions]
    with open_bank(mini, tmp_path / "bank.mbc") as bank:
        list(ingest(mini, bank, [folder]))
        assert (bank.totals().chunks, bank.sizes().codes) == (5, 5 * 24 * 9 // 8)
        memory = Memory(bank, mini)
        answers = memory.ask(questions, min_confidence=0)
    right = sum(
        compare(answer.text or "", [gold]).exact_match for answer, (gold, _) in zip(answers, golds, strict=True)
    )
    found = sum(Path(answer.sources[0].path).stem == id for answer, (_, id) in zip(answers, golds, strict=True))
    assert (len(golds), right >= 14, found >= 19) == (20, True, True), (right, found)
    assert all(source.sentence for answer in answers for source in answer.sources)
    assert {source.text_from for answer in answers for source in answer.sources} == {"file"}
