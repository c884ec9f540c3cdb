"""Finding documents by part of their name, against a loop over all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, StoredDocument, find_documents

NAMES = st.tuples(st.sampled_from(["/News/Öl.txt", "/news/a.csv", "/b", "/STRASSE"]), st.sampled_from(["", "Ada", "7"]))
ITEMS = st.lists(st.tuples(NAMES, st.integers(0, 9), st.sampled_from([None, "2020-05-01", "1987"])), max_size=12)
TEXTS = st.sampled_from(["", "NEWS", "öl", "ÖL", "csv#a", "strasse", "straße", "1987", "20", "7", "#", "zzz"])


def rows(bank, text="", most=1000):
    return [document for documents, _ in find_documents(bank, text, most) for document in documents]


@given(items=ITEMS, text=TEXTS, most=st.integers(0, 8))
def test_matches_equal_a_loop(made, items, text, most):
    with pytest.MonkeyPatch.context() as patch, made.bank() as bank:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
        bank.put([made.item(source, content, part, date) for (source, part), content, date in items])
        expected = [
            replace(document, origins=(origin,))
            for document in bank.documents()
            for origin in document.origins
            if text.casefold() in origin.name.casefold() or (origin.date or "-").startswith(text)
        ]
        assert rows(bank, text, most) == expected[:most]
        findings = list(find_documents(bank, text, most))
        assert [matches for _, matches in findings][-1:] == [len(expected)][: len(findings)]


def test_find_by_digest(made):
    with made.bank(keeps_origins=False) as bank:
        bank.put([made.item("/a", content) for content in (1, 2, 5)])
        digest = made.digest(2)[:12]
        assert rows(bank, digest[:5].upper()) == [StoredDocument(digest, 3, None, ())]
        assert rows(bank, "/a") == []
