import json
import re

import pytest


@pytest.fixture
def grid(home, preset, questions):
    """A suite of two cells with a tiny preset; the files of one of them are missing."""
    datasets = "".join(
        f"""
        [[datasets]]
        name = "{name}"
        title = "{name}"
        train = ["{file}.jsonl[:30]"]
        test = "{file}.jsonl[30:]"
        """
        for name, file in (("moves", "questions"), ("lost", "lost"))
    )
    path = home / "grid.toml"
    path.write_text(
        f"""
        title = "A grid"
        methods = ["mbc", "mbc-empty"]
        [[bases]]
        name = "tiny"
        title = "tiny"
        preset = "{preset}"
        changes = ["training.epochs=1"]
        {datasets}
        """
    )
    return path


@pytest.fixture
def grid_eval(mbc, grid, home, monkeypatch):
    """Runs `mbc eval` on the grid from a folder other than the data's."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    return lambda *arguments: mbc("eval", "--suite", grid, "--data-folder", home, *arguments)


def test_a_plan_tells_what_is_here_and_what_is_not(grid_eval, home):
    result = grid_eval("--plan")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "A grid: 2 cells, 6 stages"
    assert lines[1].startswith("tiny-moves\there\there")
    assert lines[1].endswith("3 of 3 stages")
    assert lines[2].startswith("tiny-lost\tmissing\there")
    assert lines[2].endswith("0 of 3 stages")
    assert lines[3] == f"Not available: {home}/lost.jsonl[:30], {home}/lost.jsonl[30:]"
    assert lines[-2].startswith("Memory is the minimum for the largest stage")
    pattern = r"About [\d.e-]+ hours in all, assuming [\d.]+ Tflop/s( \([\d.]+ in bf16\))?, 256 tokens a document"
    assert re.match(pattern, lines[-1])
    assert not (home / "XDG_DATA_HOME" / "mbc" / "evaluations").exists()


def test_a_plan_as_json_has_every_stage(grid_eval, home):
    plan = json.loads(grid_eval("--plan", "--json").stdout)
    moves, lost = plan["cells"]
    assert [stage["stage"] for stage in moves["stages"]] == ["prepare mbc", "mbc online", "mbc-empty online"]
    assert {stage["obstacle"] for stage in lost["stages"]} == {f"{home}/lost.jsonl[:30] is not available"}
    assert (moves["possible"], lost["possible"]) == (3, 0)


def test_the_folder_of_the_data_comes_from_the_environment_too(mbc, grid, home, monkeypatch):
    monkeypatch.setenv("MBC_DATA", str(home))
    monkeypatch.chdir("/")
    assert json.loads(mbc("eval", "--suite", grid, "--plan", "--json").stdout)["cells"][0]["possible"] == 3


def test_what_can_be_done_is_done_and_the_rest_reported(grid_eval, home):
    result = grid_eval("--run", "grid", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert [cell["name"] for cell in report["cells"]] == ["tiny-moves"]
    assert {missing["cell"] for missing in report["missing"]} == {"tiny-lost"}
    assert result.stderr.startswith("A grid: 2 cells, 6 stages\n")
    assert f"tiny-lost: prepare mbc: skipped: {home}/lost.jsonl[:30] is not available" in result.stderr


def test_what_was_missing_is_done_when_it_is_there(grid_eval, questions, home):
    grid_eval("--run", "grid")
    (home / "lost.jsonl").write_bytes(questions.read_bytes())
    result = grid_eval("--run", "grid", "--json")
    report = json.loads(result.stdout)
    assert [cell["name"] for cell in report["cells"]] == ["tiny-moves", "tiny-lost"]
    assert report["missing"] == []
    assert "3 stages were already done." in result.stderr


def test_stages_that_take_too_long_are_skipped(grid_eval):
    result = grid_eval("--run", "grid", "--hours", "0")
    assert result.exit_code == 0, result.stderr
    assert "more than the 0 allowed" in result.stderr
