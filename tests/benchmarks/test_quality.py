"""The quality page: what is measured of a tiny model, when a part is measured again, and the figures made of it."""

import json
import lzma
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine import QAExample

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("matplotlib", "Stemmer"))), reason="the extra report is not installed"
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path, examples: Callable[[int], list[QAExample]]) -> Path:
    """Ten documents and as many questions in each set."""
    rows = [
        {
            "id": own.id,
            "title": "People",
            "text": f"{own.text} He stayed.",
            "question": own.question,
            "answers": own.answers,
        }
        for own in examples(10)
    ]
    articles = {f"{own.id}.txt": f"{own.text} Nobody was hurt." for own in examples(10)}
    typed = [{"question": own.question.lower(), "file": f"{own.id}.txt", "answers": own.answers} for own in examples(9)]
    lines = {
        "qa/squad_val.jsonl.xz": rows[:8],
        "qa/squad_train_part.jsonl.xz": rows,
        "qa/wikinews_questions.jsonl": [*typed, {"question": "who left", "file": None, "answers": []}],
        "news/reuters21578.jsonl.xz": [{"id": own.id, "title": "Move", "text": own.text} for own in examples(10)],
    }
    texts = {name: "".join(json.dumps(row) + "\n" for row in own) for name, own in lines.items()}
    texts["text/wikipedia-3.txt.xz"] = "\n\n\n".join(f"{name}\n{f'The bridge of {name} held. ' * 20}" for name in "ABC")
    for name, text in texts.items() | {f"news/wikinews/{name}": text for name, text in articles.items()}.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(text.encode()) if name.endswith(".xz") else text.encode())
    return tmp_path / "data"


@pytest.mark.slow
def test_all_parts_fill_their_tables(data: Path, tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import quality
    import quality_written

    model = tiny.retriever_reader("Aalen", "Delft")
    (tmp_path / "banks").mkdir()
    setup = quality.Setup(model, data, tmp_path / "banks", limit=100, chunks=25, out=tmp_path)
    under = {
        "key": {"questions": 100, "seed": 0},
        "date": "2026-11-23",
        "machine": "a machine",
        "threads": 1,
        "load": 1.0,
    }
    parts = {name: under | part(setup) for name, part in quality.PARTS.items() if name != "writing"}
    given = parts["given"]["rows"]
    known = [row for row in given if set(row["golds"]) <= {"Aalen", "Delft"}]
    assert len(given) == 8
    assert known
    assert all(row["EM, any"] for row in known)
    assert {row["source"] for row in parts["squad"]["rows"]} == {f"{number:05d}.txt" for number in range(8)}
    assert parts["many"]["documents"] == 10 + 3
    assert [len(parts["missing"]["rows"]), len(parts["removed"]["there"]), len(parts["removed"]["gone"])] == [8, 8, 8]
    assert all(row["same"] for row in parts["forms"]["rows"]["as it is"])
    assert parts["newswire"]["scanned"] == 30
    assert len(parts["speed"]["wikinews"]) == 10
    assert [row["source"] for row in parts["wikinews"]["rows"] if not row["golds"]] == [None]
    wrong = json.loads((tmp_path / "wikinews-wrong.json").read_text())
    assert not any(row["is_given"] and row["EM, any"] for row in wrong)
    rows = [row | {"holds": True, "holds extracted": False} for row in parts["squad"]["rows"]]
    writing = under | {"extracted": rows, "written": rows}
    pages = [tmp_path / "README.md", tmp_path / "docs" / "mini.md"]
    pages[1].parent.mkdir()
    for page in pages:
        page.write_bytes((ROOT / page.relative_to(tmp_path)).read_bytes())
    monkeypatch.setattr(quality_written, "DOCS", tmp_path / "docs")
    quality_written.write(parts)
    quality_written.write_writing(writing)
    quality_written.write_answers(parts)
    readme, page = (page.read_text() for page in pages)
    assert "questions typed by hand about 10 news articles, `mini`, the embedded model, answered" in readme
    assert "| the same, without the paragraph that answers it |" in page
    assert "### The form of a question" in page
    assert "| the extracted answer is in it |  | 0.0 |" in page
    mark, written_by_hand = "<!-- end of what it writes -->", (ROOT / "docs" / "mini.md").read_text()
    assert page.count(mark) == written_by_hand.count(mark)
    assert page.endswith(written_by_hand[-2000:])
    assert (tmp_path / "docs" / "plots" / "confidence.png").exists()


def test_bm25_stems_words() -> None:
    import quality

    texts = {"a": "The painters left.", "b": "A bridge held.", "c": "Who painted it? He painted bridges."}
    asked = [quality.Question(text, (), source) for text, source in (("Painted what?", "c"), ("painting", "b"))]
    assert quality.bm25(texts, asked) == [0, None]


def test_calibration_by_hand() -> None:
    import quality_written as written

    sure, right = np.array([0.95, 0.91, 0.55, 0.15]), np.array([True, True, False, True])
    # Off by 1.86 - 2, 0.55 - 0 and 0.15 - 1.
    assert written.calibration_error(sure, right) == pytest.approx((0.14 + 0.55 + 0.85) / 4)
    assert written.area_under_curve(sure, right) == pytest.approx(2 / 3)
    assert written.area_under_curve(sure, np.ones(4, bool)) is None
    answered, shares = written.precision_curve(sure, right)
    assert answered.tolist() == [0.25, 0.5, 0.75, 1]
    assert shares.tolist() == pytest.approx([1, 1, 2 / 3, 3 / 4])
