import pytest

from mbc_engine.text.chunks import chunk, record_cells, record_starts
from mbc_engine.text.document import Section
from tests.text.conftest import words


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("Boat: Vik\nBerth: 3\n\nBoat: Moss\nBerth: 5\n", ["Boat: Vik", "Boat: Moss"]),
        ("Boat: Vik\nBerth: 3\nBoat: Moss\nBerth: 5\n", ["Boat: Vik", "Boat: Moss"]),
        ("All boats.\n\n## Vik\n\n- berth: 3\n- built: 1987\n\n## Moss\n\n- berth: 5\n- built: 1999",
         ["## Vik", "## Moss"]),
        ("- Vik\n  - **berth**: 3\n  - **built**: 1987\n- Moss\n  - berth: 5\n  - built: 1999", ["- Vik", "- Moss"]),
        ("boats:\n  vik:\n    berth: 3\n    mast: 9\n  moss:\n    berth: 5\n    mast: 8", ["vik:", "moss:"]),
        ("[vik]\nberth = 3\nbuilt = 1987\n[moss]\nberth = 5\nbuilt = 1999", ["[vik]", "[moss]"]),
        ("Vik\nBerth: 3\nMast: 9\nA fine boat.\nMoss\nBerth: 5\nMast: 8", ["Vik", "Moss"]),
        ("Vik: Berth: 3\nMast: 9\nSail: 2\nMoss: Berth: 5\nMast: 8\nSail: 3", ["Vik: Berth: 3", "Moss: Berth: 5"]),
        ("Boat: Vik\nMast: 9\nNote: old\nBoat: Moss\nMast: 8", ["Boat: Vik", "Boat: Moss"]),
        ("Boats.\n\nVik. Berth 3, built 1987.\n\nMoss. Built 1999, berth 5.",
         ["Vik. Berth 3, built 1987.", "Moss. Built 1999, berth 5."]),
        ("**Vik** - berth 3, built 1987.\n\n**Moss** - berth 5.\n\n**Haug** - berth 9, built 2003.\n", []),
        ("Is it open?\n\nIt is. We open daily at nine.\n\nIs it free?\n\nIt is not. Adults pay daily at nine.", []),
        # A form, whose parts have other keys; lines of one key; a conversation.
        ("Name: Ann\nBorn: 1951\n\nStreet: Quay 3\nTown: Vik", []),
        ("Vik: 3\nMoss: 5\nHaug: 7\n", []),
        ("Ann: We sail at nine.\nBob: Who comes?\nAnn: All of us.\nBob: Good.", []),
        ("", []),
    ],
)  # fmt: skip
def test_records_begin_at_their_labels_and_share_keys(text, starts):
    assert [text[start:].split("\n")[0] for start in record_starts(text)] == starts


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("## Vik\n\n- Berth: 3\n- **Mast**: 9 m\n", [("", "Vik"), ("Berth", "3"), ("Mast", "9 m")]),
        ("Boat: Vik\nBerth: 3", [("Boat", "Vik"), ("Berth", "3")]),
        ("Vik\nBerth: 3\nIt is old.", []),
        ("Flour: 200 g", []),
        ("", []),
    ],
)
def test_cells_of_a_record(text, cells):
    assert record_cells(text) == cells


def test_a_record_alone_below_a_heading_is_in_its_chunk():
    text = "open\n\nOpens it\n\ngate: x\nreturns: y\n\nshut\n\nShuts it\n\ngate: z\nreturns: v\n\nBoats\n\nVik\nat: 1\nreturns: 2\n\nMoss\nat: 3\nreturns: 4"
    sections = [Section(text.index(heading), heading) for heading in ("open", "shut", "Boats")]
    chunks = chunk(text, words, 9, sections)
    assert [piece.text.split()[0] for piece in chunks] == ["open", "shut", "Boats", "Vik", "Moss"]
