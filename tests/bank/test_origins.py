"""Origins in columns, against a list of tuples a document."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import Origin
from mbc_engine.bank.block import Origins

NAMES = st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1"]))
DOCUMENT = st.dictionaries(NAMES, st.sampled_from([None, "2024"]), max_size=3).map(
    lambda read: sorted(Origin(*name, date) for name, date in read.items())
)
DOCUMENTS = st.lists(DOCUMENT, max_size=6)

Documents = list[list[Origin]]


def as_list(origins: Origins) -> Documents:
    return list(map(list, origins))


@given(documents=DOCUMENTS, more=DOCUMENTS, data=st.data())
def test_columns_are_lists_side_by_side(documents: Documents, more: Documents, data: st.DataObject) -> None:
    origins = Origins.of(documents)
    assert as_list(origins) == documents
    assert len(origins) == len(documents)
    assert origins.rows() == [row for row, several in enumerate(documents) for _ in several]
    start = data.draw(st.integers(0, len(documents)))
    end = data.draw(st.integers(start, len(documents) + 2))
    assert as_list(origins.part(start, end)) == documents[start:end]
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))), np.bool_)
    assert as_list(origins.kept(keep)) == [several for several, kept in zip(documents, keep, strict=True) if kept]
    rows = dict(enumerate(more[: len(documents)]))
    assert as_list(origins.changed(rows)) == [rows.get(row, several) for row, several in enumerate(documents)]
    assert as_list(origins + Origins.of(more)) == documents + more
    assert as_list(origins) == documents
