"""The passage of a source."""

from mbc_cli.tui.widgets.passage import passage_text
from mbc_cli.tui.widgets.turn import Cited


def test_the_fitting_sentence_is_marked_where_it_is_broken_over_lines() -> None:
    cited = Cited("a.txt", "", 0.5, "", None, "Ada moved to Aalen.", "It rained.\nAda moved\n  to Aalen. So\x1b.")
    told = passage_text(cited)
    assert told.plain == "It rained.\nAda moved\n  to Aalen. So␛."
    assert [told.plain[span.start : span.end] for span in told.spans] == ["Ada moved\n  to Aalen."]
