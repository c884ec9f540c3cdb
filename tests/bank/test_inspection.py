"""Finding documents by part of their name against a loop; what codes stand for, by hand and against a loop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, CodeShape, StoredDocument, code_uses, find_documents
from mbc_engine.text import Chunk
from tests.text_models import StandIn

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


def test_typical_chunks_and_distinctive_words(made):
    texts = {
        "The harbour closed early.": (1, 2, 3),
        "A ship left the harbour.": (1, 2, 4),
        "Harbours, ships and rain.": (1, 2, 4),
        "Rain fell over the hills.": (1, 0, 0),
        "Rain again.": (0, 0, 0),
        "Rain, and a ship.": (0, 0, 0),
    }
    with replace(made, shape=CodeShape(3, 1, 5, per_position=True)).bank(keeps_text=True) as bank:
        for number, (text, codes) in enumerate(texts.items()):
            chunk = np.array(codes).reshape(1, 3, 1)
            bank.put([made.item(f"/{number}", number, codes=chunk, texts=[Chunk(text, 0)])])
        first, last, unused = code_uses(bank, [(0, 0, 1), (0, 2, 4), (0, 1, 4)], top=3)
    # Codes that the four chunks share with all four: 7, 8, 8 and 6; the third, as typical as the second, comes later.
    assert first.chunks == 4
    assert [(chunk.document.origin.source, text) for chunk, text in first.typical] == [
        ("/1", "A ship left the harbour."),
        ("/2", "Harbours, ships and rain."),
        ("/0", "The harbour closed early."),
    ]
    # harbour: 3 of 4 against 3 of 6, 3 ln 1.5; ship: 2 of 4 against 3 of 6, 0; rain: 2 of 4 against 4 of 6, below 0.
    assert first.words == ["harbour"]
    # harbour: 2 of 2 against 3 of 6, 2 ln 2; ship the same.
    assert last.chunks == 2
    assert sorted(last.words) == ["harbour", "ship"]
    assert unused == (0, [], [])


def test_lm_texts_come_from_unchanged_files(made):
    first, second = "The harbour closed early, and no ship left it. " * 3, "The harbour opened again. " * 5
    model, files = StandIn(first + second), {"/0": f"{first.strip()}\n{second.strip()}", "/1": "Now something else."}
    chunks = [Chunk(first.strip(), 0), Chunk(second.strip(), len(first.strip()) + 1)]
    with replace(made, shape=CodeShape(1, 1, 2, per_position=True)).bank(keeps_text=True) as bank:
        codes = np.ones((2, 1, 1), int)
        bank.put([made.item(f"/{number}", number, codes=codes, texts=chunks) for number in range(3)])
        *_, end = bank.recode_texts(model.open, to_lm=True)
        assert end.done == 6
        (use,) = code_uses(bank, [(0, 0, 1)], file_text=lambda document: files.get(document.origin.source))
    shown = {(chunk.document.origin.source, chunk.ordinal): text for chunk, text in use.typical}
    assert shown == {
        ("/0", 0): first.strip(),
        ("/0", 1): second.strip(),
        **dict.fromkeys([("/1", 0), ("/1", 1), ("/2", 0), ("/2", 1)], ""),  # the file has changed, or is gone
    }


@given(st.lists(st.integers(1, 4), max_size=8), st.integers(1, 2), st.booleans(), st.booleans(), st.integers(0, 100))
def test_code_uses_match_a_loop(made, lengths, levels, per_position, keeps_origins, seed):
    shape, random = CodeShape(3, levels, 5, per_position), np.random.default_rng(seed)
    documents = [
        made.item(f"/{at}", at, codes=random.integers(0, 5, (length, 3, levels))) for at, length in enumerate(lengths)
    ]
    with pytest.MonkeyPatch.context() as patch, replace(made, shape=shape).bank(keeps_origins=keeps_origins) as bank:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
        bank.put(documents)
        places = list(np.ndindex(levels, shape.positions, 5))
        for (level, position, code), found in zip(places, code_uses(bank, places, top=3), strict=True):
            users = [
                (document.digest, ordinal, chunk)
                for document in bank.documents(whole=True)
                for ordinal, chunk in enumerate(document.codes)
                if code in (chunk[position : position + 1] if per_position else chunk)[:, level]
            ]
            shared = [sum(int((chunk == other).sum()) for *_, other in users) for *_, chunk in users]
            expected = [users[at][:2] for at in np.argsort(-np.array(shared), kind="stable")[:3]]
            assert found.chunks == len(users)
            assert [(chunk.document.digest, chunk.ordinal) for chunk, _ in found.typical] == expected
            assert not found.words and not any(text for _, text in found.typical)


@pytest.mark.parametrize("code", [(2, 0, 0), (0, 3, 0), (0, 0, 5), (-1, 0, 0)])
def test_unknown_code_is_refused(made, code):
    with made.bank() as bank, pytest.raises(ValueError, match="there is no such code"):
        code_uses(bank, [code])
