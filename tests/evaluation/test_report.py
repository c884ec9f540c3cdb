"""From results to rows, tests, verdicts and tables."""

from dataclasses import replace

import pytest

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.report import build_report, read_report
from mbc_engine.evaluation.results import CodeUsage, ExperimentFolder, MethodResults, pair_all
from mbc_engine.evaluation.tables import tables_of
from mbc_engine.events import Validated
from tests.conftest import write_log
from tests.evaluation.conftest import retention_of

MINUS = "\N{MINUS SIGN}"


def test_rows_follow_the_order_of_the_methods(cell_of, results_of, predict):
    names = ("new", "mac-flat", "mbc-wrong-flat", "mbc-flat", "mbc-empty", "uniform", "mbc")
    cell = cell_of({name: results_of(predict(1, 4)) for name in names})
    assert [row.method for row in cell.rows] == [
        *("mbc", "uniform", "mbc-empty"),
        *("mbc-flat", "mac-flat", "mbc-wrong-flat", "new"),
    ]
    assert cell.rows[3].title == "MBC (flat read)"


def test_controls_and_the_oracle_lead_nothing(cell_of, results_of, predict):
    right = {"mbc-empty": 8, "oracle": 9, "mbc": 6, "uniform": 7}
    cell = cell_of({name: results_of(predict(count, 10)) for name, count in right.items()})
    assert cell.leader == "uniform"
    assert [(test.first, test.second) for test in cell.against_leader] == [("mbc", "uniform"), ("oracle", "uniform")]
    assert cell_of({"mbc": MethodResults()}).leader is None


def test_mbc_is_tested_regardless_of_leader(cell_of, results_of, predict):
    def pairs(**right: int):
        cell = cell_of({name: results_of(predict(count, 10)) for name, count in right.items()})
        return [(test.first, test.second) for test in cell.against_leader]

    assert pairs(mbc=2, mac=3, uniform=4) == [("mbc", "uniform"), ("mac", "uniform"), ("mbc", "mac")]
    assert pairs(mbc=3, mac=2, uniform=1) == [("mac", "mbc"), ("uniform", "mbc")]
    assert pairs(**{"mbc-flat": 2, "mac-flat": 3, "mac-routed": 3}, uniform=4)[-1] == ("mbc-flat", "mac-flat")
    assert pairs(**{"mbc": 2, "mbc-unquantised": 3}, uniform=4)[-1] == ("mbc", "mbc-unquantised")


class TestPairs:
    def test_shared_draws_change_no_test(self, predict):
        """The last pair has other questions and shares no draw."""
        asked = {"a": predict(30, 60), "b": predict(20, 60), "c": predict(9, 60), "d": predict(9, 40)}
        pairs = [("a", "b"), ("a", "c"), ("a", "d")]
        assert [*pair_all(asked, pairs)] == [pair_all(asked, [pair])[0] for pair in pairs]
        assert [test.questions for test in pair_all(asked, pairs)] == [60, 60, 40]

    def test_only_common_questions_count(self, predict):
        # Of questions 2 to 5 the first answers 2 and 3 rightly, the second none.
        (test,) = pair_all({"a": predict(4, 6), "b": predict(2, 8)[2:]}, [("a", "b")])
        assert (test.questions, test.exact_match.first, test.exact_match.second) == (4, 50.0, 0.0)
        assert pair_all({"a": predict(1, 2), "b": predict(1, 4)[2:]}, [("a", "b"), ("a", "c")]) == ()

    def test_questions_of_the_same_name_are_paired_in_order(self, predict):
        alike = {
            name: [replace(one, id="x", question="When?") for one in predict(right, 2)]
            for name, right in (("a", 2), ("b", 1))
        }
        (test,) = pair_all(alike, [("a", "b")])
        assert (test.questions, test.exact_match.first, test.exact_match.second) == (2, 100.0, 50.0)


class TestPublished:
    def test_published_scores(self, cell_of, published, results_of, predict):
        published(
            mbc={"exact_match": 3.5, "f1": 8.0, "retention": []},
            uniform={"exact_match": 1.0, "f1": 2.0, "retention": []},
        )
        cell = cell_of({"mbc": results_of(predict(1, 2))})
        assert [(row.method, row.published["f1"], row.online is None) for row in cell.rows] == [
            ("mbc", 8.0, False),
            ("uniform", 2.0, True),
        ]

    def test_published_retention(self, cell_of, published, results_of, predict):
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

    def test_code_usage_stands_beside_ours(self, cell_of, published):
        usage = CodeUsage(512, ((9, 60.0),), ((9, 10.0),))
        assert tables_of(cell_of({}, usage))[0].columns == ("training", "step", "perplexity")
        published(usage={"with_reset": [57, 65], "without_reset": 12})
        (table,) = tables_of(cell_of({}, usage))
        assert [line[3].text for line in table.lines] == ["57 to 65", "falls to 12"]


class TestVerdicts:
    def test_useless_bank_is_reported(self, report_of, results_of, predict):
        (verdict,) = report_of(mbc=results_of(predict(4, 1000)), mbc_empty=results_of(predict(5, 1000))).verdicts
        assert (verdict.outcome, verdict.methods, verdict.controls) == ("no", ("mbc",), ("mbc-empty",))
        assert verdict.claim == "The bank of MBC does not beat an empty bank"
        assert verdict.figures == f"EM 0.4 against 0.5 (difference {MINUS}0.1, 95% {MINUS}0.3 to 0.0)"

    def test_order_of_verdicts(self, report_of, results_of, predict):
        report = report_of(
            mbc=results_of(predict(60, 120)),
            mbc_empty=results_of(predict(60, 120)),
            mbc_wrong=results_of(predict(0, 120)),
            uniform=results_of(predict(0, 120)),
            closed_book=results_of(predict(30, 120)),
        )
        assert [(one.methods + one.controls, one.outcome) for one in report.verdicts] == [
            (("mbc", "mbc-empty"), "no"),
            (("mbc", "mbc-wrong"), "yes"),
            (("uniform", "closed-book"), "worse"),
            (("mbc", "closed-book"), "yes"),
        ]
        assert report.verdicts[2].claim == "Uniform is worse than Closed book"

    def test_without_any_control_all_are_unchecked(self, report_of, results_of, predict):
        verdicts = report_of(mbc=results_of(predict(60, 120))).verdicts
        assert [(one.outcome, one.figures) for one in verdicts] == [("unchecked", "")] * 4
        assert verdicts[0].claim == "The bank of MBC was not checked against an empty bank"

    def test_f1_alone_does_not_count_as_helping(self, report_of, results_of, predict):
        half = [replace(one, f1=0.5) for one in predict(0, 120)]
        (verdict,) = report_of(mbc=results_of(half), mbc_empty=results_of(predict(0, 120))).verdicts
        assert verdict.claim == "The bank of MBC beats an empty bank in F1 but not in EM"
        assert "; F1 50.0 against 0.0 (difference +50.0" in verdict.figures

    def test_an_interval_above_0_is_not_enough(self, report_of, results_of, predict):
        # The sign-flip test of three documents cannot go below 2 / 8.
        (verdict,) = report_of(mbc=results_of(predict(3, 3)), mbc_empty=results_of(predict(0, 3))).verdicts
        assert verdict.outcome == "no"
        assert verdict.figures.endswith(", but p = 0.250)")

    def test_of_several_cells_each_sentence_says_which(self, cell_of, results_of, predict):
        first = cell_of({"mbc": results_of(predict(60, 99)), "mbc-empty": results_of(predict(0, 99))})
        second = replace(first, name="tiny-other", dataset="Other")
        report = build_report({}, [first, second, replace(second, name="large-other", base="Large LM")])
        assert report.verdicts[-1].claim == "The bank of MBC beats an empty bank (Large LM, Other)"
        assert report.cautions[0].startswith("Tiny LM, Quiz: Figures from ")
        assert build_report({}, [first, second]).verdicts[0].claim.endswith("an empty bank (Quiz)")


class TestCautions:
    def test_few_questions_and_overlaps(self, report_of, results_of, predict):
        few, close = report_of(mbc=results_of(predict(30, 99)), uniform=results_of(predict(28, 99))).cautions
        assert few == "Figures from 99 questions. Go by the intervals, not the digits."
        assert close.startswith(
            "MBC leads with an EM of 30.3 (28.3 to 32.3), but its interval overlaps with those of U"
        )

    def test_fewer_documents_than_the_paper(self, report_of, published, results_of, predict):
        published(mbc={"exact_match": 1.0, "f1": 2.0, "retention": []})
        (caution,) = report_of(mbc=results_of(predict(50, 100))).cautions
        assert caution.startswith("The paper's figures are for 1,665 documents in one memory, these for 100.")

    def test_different_numbers_of_questions(self, report_of, results_of, predict):
        report = report_of(mbc=results_of(predict(50, 100)), uniform=results_of(predict(20, 110)))
        assert report.cautions == ("The methods were not all asked the same number of questions (100 to 110).",)

    def test_none_for_many_questions_and_a_clear_lead(self, report_of, results_of, predict):
        assert report_of(mbc=results_of(predict(50, 100)), uniform=results_of(predict(20, 100))).cautions == ()


class TestReading:
    def test_the_report_holds_what_the_folder_holds(self, make_experiment):
        report = read_report(make_experiment())
        assert (report.origin["title"], report.origin["seed"]) == ("A quiz", 3)
        (cell,) = report.cells
        assert (cell.title, cell.leader) == ("Tiny LM on Quiz", "mbc")
        rows = {row.method: row for row in cell.rows}
        assert [*rows] == ["mbc", "uniform", "closed-book", "mbc-empty"]
        assert rows["uniform"].rate == 2.5e-05
        assert rows["mbc"].retention[1].retained == 90.0
        assert rows["mbc"].online.scores.first_source == 50.0
        assert cell.code_usage.codes == 16

    def test_stages_without_a_result_are_listed(self, make_experiment):
        experiment = make_experiment()
        (missing,) = read_report(experiment).missing
        assert (missing["stage"], missing["reason"]) == ("mbc-wrong online", "there are no other documents")
        experiment.cell("tiny-quiz").file("uniform", "online").unlink()
        reasons = [missing["reason"] for missing in read_report(experiment).missing]
        assert reasons == ["not done yet", "there are no other documents"]

    def test_validations_come_from_the_logs_of_trainings(self, make_experiment):
        experiment = make_experiment()
        training = experiment.path / "tiny-quiz" / "prepared" / "mac"
        scores = enumerate((3.0, 5.0))
        events = (Validated(10 * n, n, 4, 2, 1.0, f1, None, True, 2.0 - n, 2.5) for n, f1 in scores)
        write_log(training / "events.jsonl", *events)
        (cell,) = read_report(experiment).cells
        assert cell.validations == {"mac": ((0, 3.0, 2.0, 2.5), (10, 5.0, 1.0, 2.5))}

    def test_missing_answers_are_noticed(self, make_experiment):
        experiment = make_experiment()
        path = experiment.cell("tiny-quiz").file("mbc", "online").with_name("online.predictions.jsonl")
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
        with pytest.raises(DataError, match="119 of 120 answers") as error:
            read_report(experiment)
        assert "online.json" in error.value.hint

    def test_invalid_settings_are_refused(self, tmp_path):
        with pytest.raises(DataError, match="no evaluation"):
            read_report(ExperimentFolder(tmp_path))
        (tmp_path / "experiment.toml").write_text("title = 3")
        with pytest.raises(ConfigError, match="title"):
            read_report(ExperimentFolder(tmp_path))
