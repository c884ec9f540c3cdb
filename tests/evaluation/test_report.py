"""From results to rows, tests, verdicts and tables, and to Markdown and JSON without untrusted markup."""

import json
from dataclasses import replace

import pytest

from mbc_engine.errors import DataError
from mbc_engine.evaluation.report import (
    CellReport,
    Report,
    between,
    build_report,
    difference,
    p_value,
    pays_from,
    percent,
    read_report,
)
from mbc_engine.evaluation.results import Cost, ExperimentFolder, MethodResults, pair_all
from mbc_engine.evaluation.running import environment
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.tables import NOTHING, as_json, markdown, mean, seconds, size, tables_of, write_report
from tests.evaluation.conftest import ORIGIN, cell_of, predict, report_of, results_of, retention_of

MINUS = "\N{MINUS SIGN}"


def test_rows_follow_the_order_of_the_methods():
    names = ("new", "mac-flat", "mbc-wrong-flat", "mbc-flat", "mbc-shuffled-codes", "uniform", "mbc")
    cell = cell_of({name: results_of(predict(1, 4)) for name in names})
    assert [row.method for row in cell.rows] == [
        *("mbc", "uniform", "mbc-shuffled-codes"),
        *("mbc-flat", "mac-flat", "mbc-wrong-flat", "new"),
    ]
    assert cell.rows[3].title == "MBC (flat read)"


def test_each_size_of_memory_has_its_tests():
    def scaled(*right):
        alone = enumerate(results_of(predict(count, 10)).online for count in right)
        return MethodResults(scaling=tuple(replace(one, cost=replace(one.cost, documents=size)) for size, one in alone))

    cell = cell_of({"mbc": scaled(4, 3), "mbc-wrong": scaled(1, 1, 1)})
    found = [(size, test.first, test.second, test.f1.difference.value) for size, test in cell.tests_by_size]
    assert found == [(0, "mbc", "mbc-wrong", 30.0), (1, "mbc", "mbc-wrong", 20.0)]


@pytest.mark.parametrize("name", ["mbc", "mbc-text"])
def test_retention_stands_beside_what_is_not_remembered(name):
    """Of the four questions about the first four documents, the closed book answers three and the wrong bank one."""
    kept = replace(results_of(predict(4, 10)), retention=retention_of(4, 80.0))
    controls = {"closed-book": results_of(predict(3, 10)), f"{name}-wrong": results_of(predict(1, 10))}
    cell = cell_of({name: kept, **controls})
    assert (cell.rows[0].alone.value, cell.rows[0].wrong.value) == (75.0, 25.0)
    assert (cell.rows[1].alone, cell.rows[1].wrong) == (None, None)


@pytest.mark.parametrize(
    ("on_disk", "shared", "other", "number"),
    [(40, 1000, 30, 50), (40, 1000, 29.9, 51), (40, 0, 30, 0), (40, 1000, 10, None)],  # codes of 4 documents
)
def test_codes_pay_from_so_many_documents(on_disk, shared, other, number):
    assert pays_from(Cost(4, 0.0, 0.0, on_disk, None, shared), other) == number


def test_only_common_questions_of_pairs_count():
    # Of questions 2 to 5 the first answers 2 and 3 rightly, the second none.
    (test,) = pair_all({"a": predict(4, 6), "b": predict(2, 8)[2:]}, [("a", "b")])
    assert (test.questions, test.exact_match.first, test.exact_match.second) == (4, 50.0, 0.0)
    assert pair_all({"a": predict(1, 2), "b": predict(1, 4)[2:]}, [("a", "b"), ("a", "c")]) == ()


def test_published_figures_stand_beside_ours(published):
    steps = [
        {"documents": 200, "bank_bytes": 1_500_000, "retention": 100.0},
        {"documents": 400, "bank_bytes": 1_600_000, "retention": 97.5},
    ]
    published(
        mbc={"exact_match": 3.5, "f1": 8.0, "retention": steps},
        uniform={"exact_match": 1.0, "f1": 2.0, "retention": []},
    )

    def of(first):
        cell = cell_of({"mbc": replace(results_of(predict(1, 2)), retention=retention_of(first, 100.0))})
        return cell.rows, next(table for table in tables_of(cell) if table.title.startswith("Retention"))

    rows, table = of(200)
    assert [(row.method, row.published["f1"], row.online is None) for row in rows] == [
        ("mbc", 8.0, False),
        ("uniform", 2.0, True),
    ]
    assert table.columns[5:8] == ("paper's F1 kept", "bytes, paper's count", "paper's bytes")
    assert [[*line[5:8]] for line in table.lines] == [["100.0", "2 kB", "1.5 MB"], ["97.5", "4 kB", "1.6 MB"]]
    assert "paper's bytes" not in of(100)[1].columns


class TestVerdicts:
    def test_useless_bank_is_reported(self):
        (verdict,) = report_of(
            mbc=results_of(predict(4, 1000)), mbc_shuffled_codes=results_of(predict(5, 1000))
        ).verdicts
        assert (verdict.outcome, verdict.methods, verdict.controls) == ("no", ("mbc",), ("mbc-shuffled-codes",))
        assert verdict.claim == "The bank of MBC does not beat codes shuffled over the codebook"
        assert verdict.figures == f"F1 0.4 against 0.5 (difference {MINUS}0.1, 95% {MINUS}0.3 to 0.0, p = 1.000)"

    def test_order_of_verdicts(self):
        report = report_of(
            mbc=results_of(predict(60, 120)),
            mbc_shuffled_codes=results_of(predict(60, 120)),
            mbc_wrong=results_of(predict(0, 120)),
            mbc_empty=results_of(predict(0, 120)),  # is no evidence
            uniform=results_of(predict(0, 120)),
            closed_book=results_of(predict(30, 120)),
        )
        assert [(one.methods + one.controls, one.outcome) for one in report.verdicts] == [
            (("mbc", "mbc-shuffled-codes"), "no"),
            (("mbc", "mbc-wrong"), "yes"),
            (("uniform", "closed-book"), "worse"),
            (("mbc", "closed-book"), "yes"),
        ]
        assert report.verdicts[2].claim == "Uniform is worse than Closed book"

    def test_of_several_cells_each_sentence_says_which(self):
        first = cell_of({"mbc": results_of(predict(60, 99)), "mbc-wrong": results_of(predict(0, 99))})
        second = replace(first, name="tiny-other", dataset="Other")
        report = build_report({}, [first, second, replace(second, name="large-other", base="Large LM")])
        assert report.verdicts[-1].claim == "The bank of MBC beats a bank of other documents (Large LM, Other)"
        assert report.cautions[0].startswith("Tiny LM, Quiz: Figures from ")
        assert build_report({}, [first, second]).verdicts[0].claim.endswith(" (Quiz)")


def test_cautions(published):
    def of(**right):
        cell = cell_of({name: results_of(predict(*counts)) for name, counts in right.items()})
        return [caution.partition(":")[0].partition(",")[0] for caution in build_report({}, [cell]).cautions]

    assert of(mbc=(50, 100), uniform=(20, 100)) == []
    assert of(mbc=(30, 99)) == ["Figures from 99 questions. Go by the intervals"]
    assert of(mbc=(9, 19))[1] == "The documents come from 19 articles"
    few = build_report({}, [cell_of({"mbc": results_of(predict(9, clusters))}) for clusters in (4, 13, 19)]).cautions
    assert [caution.rpartition(" ")[2] for caution in few[1::2]] == ["0.12.", "0.00024.", "0.0001."]
    assert of(mbc=(50, 100), uniform=(20, 110)) == [
        "The methods were not all asked the same number of questions (100 to 110)."
    ]
    published(mbc={"exact_match": 1.0, "f1": 2.0, "retention": []})
    assert of(mbc=(50, 100)) == ["The paper's figures are for 1"]


@pytest.mark.parametrize(("rate", "is_at_edge"), [(1e-4, True), (2.5e-5, False), (6.25e-6, True)])
def test_a_rate_at_the_edge_of_its_grid(rate, is_at_edge):
    tuned = replace(results_of(predict(50, 100)), rate=rate)
    cell = replace(cell_of({"uniform": tuned}), rates=(1e-4, 2.5e-5, 6.25e-6))
    edge = f"Uniform: the best learning rate, {rate:g}, is at the edge of those tried."
    assert build_report({}, [cell]).cautions == ((edge,) if is_at_edge else ())


def test_the_report_holds_what_the_folder_holds(experiment):
    report = read_report(experiment)
    assert (report.origin["title"], report.origin["seed"]) == ("A quiz", 3)
    (cell,), (missing,) = report.cells, report.missing
    assert cell.title == "Tiny LM on Quiz"
    rows = {row.method: row for row in cell.rows}
    assert [*rows] == ["mbc", "uniform", "closed-book", "mbc-shuffled-codes"]
    assert (rows["uniform"].rate, rows["mbc"].retention[1].retained) == (2.5e-05, 90.0)
    assert (rows["mbc"].online.scores.first_source, cell.code_usage.codes) == (50.0, 16)
    assert (missing["stage"], missing["reason"]) == ("mbc-wrong online", "there are no other documents")
    experiment.cell("tiny-quiz").file("uniform", "online").unlink()
    reasons = [missing["reason"] for missing in read_report(experiment).missing]
    assert reasons == ["not done yet", "there are no other documents"]


def test_missing_answers_are_noticed(experiment):
    path = experiment.cell("tiny-quiz").file("mbc", "online").with_name("online.predictions.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match="119 of 120 answers") as error:
        read_report(experiment)
    assert "online.json" in error.value.hint


def test_the_report_s_files(experiment):
    write_report(experiment)
    report = json.loads(experiment.report_json.read_text())
    assert report == json.loads(json.dumps(as_json(read_report(experiment))))
    assert [*report][:2] == ["verdicts", "cautions"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["unchecked", "yes", "no", "yes"]
    exact_match = report["cells"][0]["rows"][0]["online"]["scores"]["exact_match"]
    assert exact_match == {"value": 50.0, "low": 48.0, "high": 52.0}
    text = experiment.report_markdown.read_text()
    assert text.splitlines()[2] == "- ? **The bank of MBC was not checked against a bank of other documents**."
    assert "| MBC | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) | 50.0 | 50.0 | 100.0 |" in text
    assert "| MBC | 400 | 10.0 | 18.0 (18.0 to 18.0) | 90.0 | 3.3 (0.8 to 6.7) | 4 kB | 8 kB |" in text
    scaling = text.split("EM by the number of documents")[1].split("###")[0]
    assert "| method | 16 | 64 | 120 |" in scaling
    assert "| MBC | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) |" in scaling
    assert "| with reset | 20 | 12.0 (of 16) |" in text
    assert "there are no other documents" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_an_empty_experiment_has_a_report(tmp_path):
    experiment = ExperimentFolder(tmp_path)
    with experiment.lock():
        settings = {"title": "Nothing", "bases": [], "datasets": [], "methods": []}
        experiment.begin(settings, environment(0), settings)
    assert "Nothing" in write_report(experiment).read_text()


def test_untrusted_text_is_no_markup():
    hostile = "| `a` *b* [c](http://d) <b> &amp;\x1b[31m\u202e\u2028\n\ud800"
    origin = {**ORIGIN, "title": hostile, "command": hostile, "settings": {"a": hostile}}
    cell = CellReport("c", hostile, "", (), (), (), (), (), 0, None)
    missing = {"cell": hostile, "stage": hostile, "reason": hostile}
    text = markdown(Report((), (hostile,), origin, (cell,), (missing,)))
    escaped = r"\| \`a\` \*b\* \[c\](http://d) \<b\> \&amp;\<U+001B\>\[31m\<U+202E\>\<U+2028\>↵\<U+D800\>"
    assert text.count(escaped) == 7
    assert hostile.splitlines()[0] not in text


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (difference(1.25), "+1.2"),
        (difference(-0.36), f"{MINUS}0.4"),
        (difference(-0.04), "0.0"),
        (between(Interval(0.0, -0.01, 3.25)), "0.0 to 3.2"),
        (mean(Interval(1.0, 0.5, 2.0)), "1.0 (0.5 to 2.0)"),
        (mean(40.0), "40.0"),
        (p_value(0.0312), "0.031"),
        (p_value(0.0002), "< 0.001"),
        (percent(None), NOTHING),
        (seconds(0), "0 s"),
        (seconds(6.74e-8), "0.0674 µs"),
        (seconds(0.0009999), "1 ms"),
        (seconds(999.7), "1,000 s"),
        (size(None), NOTHING),
        (size(999), "999 B"),
        (size(1_234_567), "1.23 MB"),
        (size(999_600), "1 MB"),
    ],
)
def test_figures_as_readers_see_them(shown, expected):
    assert shown == expected
