"""Which documents use a code, against a loop over all codes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import (
    BankHeader,
    CodeShape,
    MemoryBank,
    ModelSignature,
    Origin,
    StoredDocument,
    documents_with_code,
)


@given(
    lengths=st.lists(st.integers(1, 4), max_size=12),
    levels=st.integers(1, 2),
    per_position=st.booleans(),
    keeps_origins=st.booleans(),
    top=st.integers(1, 6),
    seed=st.integers(0, 100),
)
@settings(max_examples=60)
def test_uses_are_those_of_a_loop(
    lengths: list[int], levels: int, per_position: bool, keeps_origins: bool, top: int, seed: int
) -> None:
    shape, random = CodeShape(3, levels, 5, per_position), np.random.default_rng(seed)
    signature = ModelSignature("m", "aa", "bb")
    with (
        pytest.MonkeyPatch.context() as patch,
        MemoryBank.create(None, signature, shape, 2, keeps_origins=keeps_origins) as bank,
    ):
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
        bank.put(
            [
                StoredDocument(
                    f"{number:032x}"[::-1],
                    length,
                    9,
                    (Origin(f"/{number}", "", None),),
                    random.integers(0, 5, (length, 3, levels)),
                )
                for number, length in enumerate(lengths)
            ]
        )
        for level, position, code in np.ndindex(levels, shape.positions, 5):
            expected: list[tuple[StoredDocument, int, int]] = []
            for document in bank.documents(whole=True):
                codes = document.codes
                own = codes[:, position, level] if per_position else codes[:, :, level]
                if times := int((own == code).sum()):
                    expected.append((document, times, own.size))
            expected.sort(key=lambda use: -use[1])  # stable: of equal ones the first stored stays first
            found = documents_with_code(bank, level, position, code, top)
            assert found == expected[:top]


@pytest.mark.parametrize("code", [(2, 0, 0), (0, 3, 0), (0, 0, 5), (-1, 0, 0)])
def test_a_code_that_the_bank_has_not_is_refused(made: Any, code: tuple[int, int, int]) -> None:
    with made.bank() as bank, pytest.raises(ValueError, match="there is no code"):
        documents_with_code(bank, *code)
