"""What a document's chunks must know of it goes with each piece of a long text."""

from mbc_engine.text.document import Content, Section
from mbc_engine.text.formats import TEXT
from mbc_engine.text.reader import _pieces


def test_a_piece_has_the_sections_that_reach_into_it() -> None:
    text = "Introduction. " + "a" * 40_000 + " Middle. " + "b" * 40_000
    middle = text.index("Middle")
    content = Content(text, text.encode(), sections=(Section(0, "Report"), Section(middle, "Report > Middle")))

    pieces = list(_pieces(content, TEXT, "/report.txt", None))

    assert "".join(piece.text for piece in pieces) == text
    done = 0
    for piece in pieces:
        assert piece.sections[0].start == 0
        for section in piece.sections[1:]:
            assert piece.text[section.start :].startswith("Middle")
        expected = "Report" if done < middle else "Report > Middle"
        assert piece.sections[0].context == expected
        done += len(piece.text)
