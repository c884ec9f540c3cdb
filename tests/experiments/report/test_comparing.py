"""Two experiments side by side."""

from mbc_engine.experiments.tables import compare_experiments


def test_a_gain_of_the_second_is_a_plus(make_experiment):
    comparison = compare_experiments(make_experiment("old", right=30), make_experiment("new", right=60))
    assert (comparison.first, comparison.second) == ("old", "new")
    assert [compared["method"] for compared in comparison.compared] == ["mbc", "uniform", "closed-book", "mbc-empty"]
    test = comparison.compared[0]["test"]
    assert (test.questions, test.exact_match.second, test.exact_match.first) == (120, 25.0, 50.0)
    assert test.exact_match.is_gain
    assert comparison.compared[1]["test"].exact_match.p == 1.0


def test_only_the_questions_that_both_asked_count(make_experiment):
    comparison = compare_experiments(make_experiment("old", right=60), make_experiment("new", right=60, questions=80))
    test = comparison.compared[0]["test"]
    assert (test.questions, test.exact_match.first) == (80, 75.0)


def test_other_settings_and_methods_are_told_dates_are_not(make_experiment):
    first, second = make_experiment("old"), make_experiment("new", questions=80)
    second.cell("tiny-quiz").file("uniform", "online").unlink()
    comparison = compare_experiments(first, second)
    assert comparison.only_first == (("tiny-quiz", "uniform"),)
    assert comparison.settings == ({"name": "documents", "first": "120", "second": "80"},)
    assert comparison.environment == ()


def test_folders_of_one_name_are_told_apart_by_their_paths(make_experiment, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    comparison = compare_experiments(make_experiment("run"), make_experiment("elsewhere/run"))
    assert comparison.first != comparison.second


def test_its_table_has_a_line_for_each_method(make_experiment):
    comparison = compare_experiments(make_experiment("old", right=30), make_experiment("new", right=60))
    (table,) = comparison.tables()
    lines = {name.text: [entry.text for entry in entries] for name, *entries in table.lines}
    assert lines["MBC"][:4] == ["120", "25.0", "50.0", "+25.0"]
    assert lines["Uniform"][:5] == ["120", "2.5", "2.5", "0.0", "1.000"]
