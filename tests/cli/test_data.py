import json

import pytest

from mbc_cli.engine import read_data
from mbc_engine.datasets import by_name


@pytest.fixture
def small_squad(home, monkeypatch):
    """Original files of six questions each: four of them to train on, two to validate on. Returns their folder."""
    names, places = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo"), ("Aalen", "Bergen", "Cadiz") * 2
    paragraphs = [
        {
            "context": f"{name} moved to {place}.",
            "qas": [{"id": name, "question": f"Where did {name} move?", "answers": [{"text": place}]}],
        }
        for name, place in zip(names, places, strict=True)
    ]
    for part, (file, _) in by_name.ORIGINALS.items():
        (home / file).write_text(json.dumps({"version": "1.1", "data": [{"title": "Moves", "paragraphs": paragraphs}]}))
        monkeypatch.setitem(by_name.ORIGINALS, part, (file, 6))
    monkeypatch.setitem(by_name.SPLITS, "train", ("train", slice(4)))
    monkeypatch.setitem(by_name.SPLITS, "validation", ("train", slice(4, None)))
    return home


def test_datasets_are_read_in_order(small_squad):
    examples = read_data(["squad:validation:.", "squad:train:."])
    assert [example.id for example in examples] == ["Ed", "Flo", "Ada", "Bo", "Cy", "Di"]


def test_squad_is_validated_as_in_the_paper(mbc, preset, small_squad):
    arguments = (
        "--preset",
        preset,
        "--data",
        "squad:train:.",
        "--run",
        "./run",
        "--set",
        "training.epochs=1",
        "--json",
    )
    events = [json.loads(line) for line in mbc("train", *arguments).stdout.splitlines()]
    assert events[0]["documents"] == 4
    assert [event["documents"] for event in events if event["event"] == "Validated"] == [2]
    command = json.loads((small_squad / "run" / "command.json").read_text())
    assert command["data"] == [f"squad:train:{small_squad}"]
    assert command["validation"] == f"squad:validation:{small_squad}"


@pytest.mark.slow
def test_eval_and_calibrate_on_squad(mbc, model, small_squad):
    result = mbc("eval", "--model", model, "--data", "squad:test:.", "--method", "mbc", "--json")
    (cell,) = json.loads(result.stdout)["cells"]
    assert cell["rows"][0]["online"]["scores"]["questions"] == 6
    result = mbc("calibrate", "--model", model, "--data", "squad:test:.", "--bank-size", 2, "--json")
    assert (result.exit_code, "6 questions are too few" in result.stderr) == (3, True)


@pytest.mark.parametrize("command", [("eval",), ("calibrate",), ("train", "--preset", "smollm2-135m")])
def test_unknown_split(mbc, model, command):
    chosen = ("--model", model) if command == ("calibrate",) else ()
    result = mbc(*command, *chosen, "--data", "squad:dev")
    assert result.exit_code == 3
    assert "'squad:dev' is not squad:SPLIT[:FOLDER]." in result.stderr
    assert "train, validation, test" in result.stderr
