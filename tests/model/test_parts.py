"""Blocks cut into parts, against cutting one list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.paper.memories import parts_of


@given(
    blocks=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), max_size=5),
    size=st.integers(1, 9),
    weigh=st.booleans(),
    data=st.data(),
)
def test_parts_are_what_one_list_would_be_cut_into(
    blocks: list[list[int]], size: int, weigh: bool, data: st.DataObject
) -> None:
    lengths = [length for block in blocks for length in block]
    total = sum(lengths)
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=total, max_size=total)) if weigh else None
    documents = [number for number, length in enumerate(lengths) for _ in range(length)]
    kept = [chunk for chunk in range(total) if weights is None or weights[chunk] > 0]
    expected = [kept[start : start + size] for start in range(0, len(kept), size)]

    def stream() -> object:
        first = 0
        for block in blocks:
            yield np.arange(first, first + sum(block)) * 10, np.array(block)
            first += sum(block)

    parts = list(parts_of(stream(), None if weights is None else np.array(weights, np.float32), size))
    assert [part.chunks.tolist() for part in parts] == expected
    for part, chunks in zip(parts, expected, strict=True):
        own = [documents[chunk] for chunk in chunks]
        assert part.items.tolist() == [chunk * 10 for chunk in chunks]
        assert part.documents.tolist() == own
        assert part.lengths.tolist() == [own.count(number) for number in sorted(set(own))]
        if weights is None:
            assert (part.weights, part.weight) == (None, len(chunks))
        else:
            assert part.weights.tolist() == [weights[chunk] for chunk in chunks]
            assert part.weight == sum(weights[chunk] for chunk in chunks)
