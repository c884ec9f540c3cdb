"""How results become a report."""

from dataclasses import replace

from mbc_engine.evaluation.results import CodeUsage, MethodResults, pair_all
from mbc_engine.experiments.tables import tables_of
from tests.experiments.report.conftest import retention_of


def pair(first, second):
    return pair_all([(first, second)])[0]


def test_methods_stand_in_the_registrys_order_unknown_ones_last(cell_of, results_of, predict):
    methods = {name: results_of(predict(1, 4)) for name in ("new", "mbc-empty", "uniform", "mbc")}
    assert [row.title for row in cell_of(methods).rows] == ["MBC", "Uniform", "MBC, empty bank", "new"]


def test_no_control_leads(cell_of, results_of, predict):
    methods = {
        "mbc-empty": results_of(predict(8, 10)),
        "mbc": results_of(predict(6, 10)),
        "uniform": results_of(predict(7, 10)),
    }
    cell = cell_of(methods)
    assert cell.leader == "uniform"
    assert [(test.first, test.second) for test in cell.against_leader] == [("mbc", "uniform")]


def test_mbc_is_tested_against_mac_and_without_codes_whoever_leads(cell_of, results_of, predict):
    def pairs(**right: int):
        cell = cell_of({name: results_of(predict(count, 10)) for name, count in right.items()})
        return [(test.first, test.second) for test in cell.against_leader]

    assert pairs(mbc=2, mac=3, uniform=4) == [("mbc", "uniform"), ("mac", "uniform"), ("mbc", "mac")]
    assert pairs(mbc=3, mac=2, uniform=1) == [("mac", "mbc"), ("uniform", "mbc")]
    assert pairs(mbc=2, mac=3, uniform=1) == [("mbc", "mac"), ("uniform", "mac")]
    flat = {"mbc-flat": 2, "mac-flat": 3, "mac-routed": 3}
    assert pairs(**flat, uniform=4)[-1] == ("mbc-flat", "mac-flat")
    assert pairs(**{"mbc": 2, "mbc-unquantised": 3}, uniform=4)[-1] == ("mbc", "mbc-unquantised")


def test_published_figures_stand_beside_ours_and_for_what_was_not_run(cell_of, published, results_of, predict):
    published(
        mbc={"exact_match": 3.5, "f1": 8.0, "retention": []}, uniform={"exact_match": 1.0, "f1": 2.0, "retention": []}
    )
    cell = cell_of({"mbc": results_of(predict(1, 2))})
    assert [(row.method, row.published and row.published["f1"], row.online is None) for row in cell.rows] == [
        ("mbc", 8.0, False),
        ("uniform", 2.0, True),
    ]


def test_the_papers_retention_stands_beside_ours_where_it_is_of_as_many_documents(
    cell_of, published, results_of, predict
):
    steps = [
        {"documents": 200, "bank_bytes": 1_500_000, "retention": 100.0},
        {"documents": 400, "bank_bytes": 1_600_000, "retention": 97.5},
    ]
    published(mbc={"exact_match": 3.5, "f1": 8.0, "retention": steps})

    def table(first):
        cell = cell_of({"mbc": replace(results_of(predict(1, 2)), retention=retention_of(first, 100.0))})
        return next(table for table in tables_of(cell) if table.title.startswith("Retention"))

    paper = table(200)
    assert paper.columns[5:8] == ("paper's F1 kept", "bytes, paper's count", "paper's bytes")
    assert [[entry.text for entry in line[5:8]] for line in paper.lines] == [
        ["100.0", "2 kB", "1.5 MB"],
        ["97.5", "4 kB", "1.6 MB"],
    ]
    assert "paper's bytes" not in table(100).columns


def test_the_papers_code_usage_stands_beside_ours(cell_of, published):
    usage = CodeUsage(512, ((9, 60.0),), ((9, 10.0),))
    assert tables_of(cell_of({}, usage))[0].columns == ("training", "step", "perplexity")
    published(usage={"with_reset": [57, 65], "without_reset": 12})
    (table,) = tables_of(cell_of({}, usage))
    assert [line[3].text for line in table.lines] == ["57 to 65", "falls to 12"]


def test_tests_on_the_same_questions_are_what_each_is_alone(predict):
    """The last pair has other questions and shares no draw."""
    asked = {"a": predict(30, 60), "b": predict(20, 60), "c": predict(9, 60), "d": predict(9, 40)}
    tests = [(("a", asked["a"]), (name, asked[name])) for name in ("b", "c", "d")]
    assert pair_all(tests) == [pair(first, second) for first, second in tests]
    assert [test.questions for test in pair_all(tests)] == [60, 60, 40]


def test_a_cell_without_answers_has_no_leader(cell_of):
    cell = cell_of({"mbc": MethodResults()})
    assert (cell.leader, cell.against_leader) == (None, ())


def test_pairs_are_of_the_questions_both_were_asked(predict):
    # Of questions 2 to 5 the first answers 2 and 3 rightly, the second none.
    test = pair(("a", predict(4, 6)), ("b", predict(2, 8)[2:]))
    assert test is not None
    assert (test.questions, test.exact_match.first, test.exact_match.second) == (4, 50.0, 0.0)
    assert test.exact_match.difference.value == 50.0


def test_questions_of_the_same_name_are_paired_in_order(predict):
    first, second = predict(2, 2), predict(1, 2)
    alike = [[replace(one, id="x", question="When?") for one in asked] for asked in (first, second)]
    test = pair(("a", alike[0]), ("b", alike[1]))
    assert test is not None
    assert (test.questions, test.exact_match.first, test.exact_match.second) == (2, 100.0, 50.0)


def test_what_shares_no_question_is_not_tested(predict):
    assert pair_all([(("a", predict(1, 2)), ("b", predict(1, 4)[2:]))]) == []
