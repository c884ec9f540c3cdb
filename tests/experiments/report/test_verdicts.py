"""What the first lines of a report say."""

from dataclasses import replace

from mbc_engine.experiments.report import build_report


def sentence(verdict):
    return f"{verdict.claim}: {verdict.figures}." if verdict.figures else f"{verdict.claim}."


def test_a_bank_that_does_not_help_is_reported_in_plain_words(report_of, results_of, predict):
    report = report_of(
        mbc=results_of(predict(4, 1000)),
        mbc_empty=results_of(predict(5, 1000)),
    )
    (verdict,) = report.verdicts
    assert verdict.outcome == "no"
    assert sentence(verdict) == (
        "MBC's bank does not beat an empty bank: EM 0.4 with it, 0.5 with an empty bank "
        "(difference \N{MINUS SIGN}0.1, 95% \N{MINUS SIGN}0.3 to 0.0)."
    )


def test_a_bank_that_helps_names_every_control(report_of, results_of, predict):
    report = report_of(
        mbc=results_of(predict(60, 120)),
        mbc_empty=results_of(predict(0, 120)),
        mbc_wrong=results_of(predict(1, 120)),
    )
    (verdict,) = report.verdicts
    assert (verdict.outcome, verdict.controls) == ("yes", ("mbc-empty", "mbc-wrong"))
    assert verdict.claim == "MBC's bank beats an empty bank and a bank of other documents"
    assert verdict.figures.startswith("EM 50.0 with it, 0.0 with an empty bank (difference +50.0, 95% ")
    assert ", 0.8 with a bank of other documents (difference +49.2, 95% " in verdict.figures


def test_bad_news_comes_first_and_banks_before_other_methods(report_of, results_of, predict):
    report = report_of(
        mbc=results_of(predict(60, 120)),
        mbc_empty=results_of(predict(60, 120)),
        mbc_wrong=results_of(predict(0, 120)),
        uniform=results_of(predict(0, 120)),
        closed_book=results_of(predict(30, 120)),
    )
    assert [(verdict.outcome, verdict.controls) for verdict in report.verdicts] == [
        ("no", ("mbc-empty",)),
        ("yes", ("mbc-wrong",)),
        ("worse", ("closed-book",)),
        ("yes", ("closed-book",)),
    ]
    assert [verdict.methods for verdict in report.verdicts[2:]] == [("uniform",), ("mbc",)]
    assert sentence(report.verdicts[2]).startswith(
        "Uniform is worse than Closed book: EM 25.0 for Closed book, 0.0 for Uniform (difference "
    )


def test_a_control_that_was_not_asked_is_mentioned(report_of, results_of, predict):
    report = report_of(mbc=results_of(predict(60, 120)))
    (verdict,) = report.verdicts
    assert sentence(verdict) == (
        "MBC's bank was not checked against an empty bank, codes shuffled over the documents, "
        "codes shuffled over the codebook or a bank of other documents."
    )


def test_of_several_cells_each_sentence_says_which(cell_of, results_of, predict):
    first = cell_of({"mbc": results_of(predict(60, 99)), "mbc-empty": results_of(predict(0, 99))})
    second = replace(first, name="tiny-other", dataset="Other")
    third = replace(second, name="large-other", base="Large LM")
    report = build_report({}, [first, second])
    assert [verdict.claim for verdict in report.verdicts] == [
        "MBC's bank beats an empty bank on Quiz",
        "MBC's bank beats an empty bank on Other",
    ]
    assert [caution[:19] for caution in report.cautions] == ["Quiz: Figures from ", "Other: Figures from"]
    report = build_report({}, [second, third])
    assert [verdict.claim for verdict in report.verdicts] == [
        "MBC's bank beats an empty bank (Tiny LM)",
        "MBC's bank beats an empty bank (Large LM)",
    ]
    assert (
        build_report({}, [first, second, third]).verdicts[-1].claim
        == "MBC's bank beats an empty bank on Other (Large LM)"
    )
    assert build_report({}, [first, third]).cautions[0].startswith("Quiz, Tiny LM: Figures from ")


def test_f1_alone_does_not_count_as_helping(report_of, results_of, predict):
    half = [replace(one, f1=0.5) for one in predict(0, 120)]
    report = report_of(mbc=results_of(half), mbc_empty=results_of(predict(0, 120)))
    (verdict,) = report.verdicts
    assert verdict.outcome == "partly"
    assert verdict.claim == "MBC's bank beats an empty bank in F1 but not in EM"
    assert "; F1 50.0 with it, 0.0 with an empty bank" in verdict.figures


def test_an_interval_above_0_is_not_enough(report_of, results_of, predict):
    # Three documents won and none lost: every bootstrap mean is above 0 only where one of them is drawn, and the
    # sign-flip test of three documents cannot go below 2 / 8.
    report = report_of(mbc=results_of(predict(3, 3)), mbc_empty=results_of(predict(0, 3)))
    (verdict,) = report.verdicts
    assert verdict.outcome == "no"
    assert "but p = 0.250" in verdict.figures


def test_few_questions_and_overlaps_are_flagged(report_of, results_of, predict):
    report = report_of(
        mbc=results_of(predict(30, 99)),
        uniform=results_of(predict(28, 99)),
    )
    few, close = report.cautions
    assert few == "Figures from 99 questions. Go by the intervals, not the digits."
    assert close.startswith("MBC leads with an EM of 30.3 (28.3 to 32.3), but the intervals of Uniform ")


def test_fewer_documents_than_the_papers_are_flagged(report_of, published, results_of, predict):
    published(mbc={"exact_match": 1.0, "f1": 2.0, "retention": []})
    assert report_of(mbc=results_of(predict(50, 100))).cautions == (
        (
            "The paper's figures are for 1,665 documents in one memory, these for 100. "
            "More documents are harder to tell apart."
        ),
    )


def test_many_questions_and_a_clear_lead_are_not(report_of, results_of, predict):
    report = report_of(mbc=results_of(predict(50, 100)), uniform=results_of(predict(20, 100)))
    assert report.cautions == ()


def test_methods_asked_different_questions_are_flagged(report_of, results_of, predict):
    report = report_of(mbc=results_of(predict(50, 100)), uniform=results_of(predict(20, 110)))
    assert report.cautions == ("The methods were not all asked the same number of questions (100 to 110).",)
