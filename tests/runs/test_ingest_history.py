"""The state of ingests, computed from their events."""

from dataclasses import replace

import pytest

from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.runs.ingests import IngestHistory, IngestState

END = IngestFinished(3, 30, 0, 0, 0, 9.0, 5.0, True, 10, 11, 100, 2700, 500, 9000)


def history(*events: Event) -> IngestHistory:
    """The history of events a second apart."""
    made = IngestHistory()
    made.add((float(second), event) for second, event in enumerate(events))
    return made


def report(chunks: int, size: int, seconds: float, source: str = "/a") -> DocumentsIngested:
    return DocumentsIngested(chunks // 10, chunks, 0, size, seconds, (source,))


def test_the_current_ingest_is_summarised() -> None:
    skipped = FileSkipped("/b.png", "is a .png file")
    ingest = history(IngestStarted(4, 800), skipped, report(10, 100, 1.0), report(40, 200, 3.0, "/c"))
    assert (ingest.state, ingest.began, ingest.started) == ("running", 0.0, IngestStarted(4, 800))
    assert (list(ingest.skipped), ingest.skips, list(ingest.sources)) == ([skipped], 1, ["/a", "/c"])
    assert (ingest.reported, ingest.size_done) == (report(40, 200, 3.0, "/c"), 200)
    # 30 chunks and 100 bytes in two seconds; 600 bytes are left.
    assert (ingest.rate, ingest.seconds_left) == (15.0, 12.0)


def test_the_pace_of_the_current_ingest_is_kept() -> None:
    reports = [report(10, 100, 1.0), report(40, 200, 3.0), report(40, 200, 4.0)]
    assert list(history(IngestStarted(4, 800), *reports).pace) == [15.0, 10.0]
    assert not history(IngestStarted(4, 800), *reports, IngestStarted(4, 800)).pace


def test_growth_is_a_point_an_ingest() -> None:
    ingest = history(END, replace(END, bank_documents=12), IngestStarted(1, 8))
    assert [(time, end.bank_documents) for time, end in ingest.growth] == [(0.0, 10), (1.0, 12)]
    assert ingest.state == "running"


@pytest.mark.parametrize(("is_complete", "state"), [(True, "finished"), (False, "stopped")])
def test_the_end_says_whether_it_was_stopped(is_complete: bool, state: IngestState) -> None:
    assert history(IngestStarted(4, 8), replace(END, is_complete=is_complete)).state is state


def test_without_events_nothing_is_known() -> None:
    ingest = history()
    assert (ingest.state, ingest.rate, ingest.seconds_left, ingest.size_done) == (None, None, None, 0)


def test_a_stream_whose_size_is_unknown_has_no_end_in_sight() -> None:
    ingest = history(IngestStarted(1, 0), report(10, 0, 1.0), report(20, 0, 2.0))
    assert (ingest.rate, ingest.seconds_left) == (10.0, None)


def test_what_stands_still_has_no_end_in_sight() -> None:
    ingest = history(IngestStarted(1, 99), report(10, 9, 1.0), report(10, 9, 1.0))
    assert (ingest.rate, ingest.seconds_left) == (None, None)


def test_only_late_reports_determine_the_rate() -> None:
    reports = [report(0, 0, float(second)) for second in range(10)]
    reports += [report(100 * late, 0, 9.0 + late) for late in range(1, 21)]
    assert history(IngestStarted(1, 0), *reports).rate == 100.0


def test_the_next_ingest_begins_from_nothing() -> None:
    ingest = history(
        IngestStarted(4, 800), FileSkipped("/b", "is empty"), report(10, 100, 1.0), END, IngestStarted(1, 8)
    )
    assert (ingest.reported, ingest.finished, list(ingest.skipped), ingest.skips, ingest.rate) == (
        None,
        None,
        [],
        0,
        None,
    )
    assert list(ingest.sources) == ["/a"]


def test_all_that_is_skipped_is_counted_and_the_last_thousand_kept() -> None:
    ingest = history(IngestStarted(1, 1), *(FileSkipped(str(number), "is empty") for number in range(1500)))
    assert (ingest.skips, len(ingest.skipped), ingest.skipped[0].source) == (1500, 1000, "500")


def test_names_are_kept_once_in_a_row() -> None:
    ingest = history(
        *(DocumentsIngested(0, 0, 0, 0, 0.0, sources) for sources in ((), ("/a", "/a", "/b"), ("/b", "/a")))
    )
    assert list(ingest.sources) == ["/a", "/b", "/a"]
