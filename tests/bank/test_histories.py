"""Any history of a bank, against a plain dict and against banks that never held what was removed."""

import io
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, MemoryBank, Origin, memory_bank, text_codec
from mbc_engine.bank.exchange import export, import_lines, merge
from mbc_engine.bank.text_codec import decode_chunk, encode_chunk
from mbc_engine.bank.verification import verify
from mbc_engine.bank.words import number_of, word_numbers
from mbc_engine.events import DamageFound
from mbc_engine.text import Chunk

SOURCES = st.sampled_from([f"/{letter}" for letter in "abcdefgh"])
NAMES = st.tuples(SOURCES, st.sampled_from(["", "", "1", "2"]))
CONTENTS = st.integers(0, 15)
READ = st.tuples(NAMES, CONTENTS, st.sampled_from([None, "2020-05-31", "2021-05-31"]))
ITEMS = st.lists(READ, min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ITEMS),
        st.tuples(st.just("add"), ITEMS),
        st.tuples(st.just("add by another"), ITEMS),
        st.tuples(st.just("merge"), ITEMS),
        st.tuples(st.just("import"), ITEMS),
        st.tuples(st.just("remove"), st.lists(NAMES, max_size=4)),
        st.tuples(st.just("remove documents"), st.lists(CONTENTS, max_size=3)),
        st.tuples(st.just("remove all but"), SOURCES),
        st.tuples(st.just("fail"), ITEMS),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("recode"), st.tuples(st.booleans(), st.integers(0, 4))),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=14,
)

Item = tuple[tuple[str, str], int, str | None]


@pytest.fixture(scope="module", autouse=True)
def tiny_blocks():
    """Blocks that a few documents fill, and rows that a few texts fill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 7))
        patch.setattr(text_codec, "FULL_ROW_BYTES", 60)
        patch.setattr(memory_bank, "LM_BATCH", 3)
        yield


@dataclass
class ExpectedBank:
    """What a bank should hold: with origins, what was read where; without, the contents alone."""

    keeps_origins: bool
    read: dict[tuple[str, str], tuple[int, str | None]] = field(default_factory=dict)
    bare: set[int] = field(default_factory=set)

    def add(self, items):
        if self.keeps_origins:
            self.read.update({name: (content, date) for name, content, date in items})
        else:
            self.bare.update(content for _, content, _ in items)

    def remove(self, names):
        return sum(self.read.pop(name, None) is not None for name in set(names))

    def remove_documents(self, contents):
        gone = self.contents & set(contents)
        self.bare -= gone
        self.read = {name: value for name, value in self.read.items() if value[0] not in gone}
        return len(gone)

    @property
    def contents(self):
        return {content for content, _ in self.read.values()} if self.keeps_origins else self.bare

    def origins(self, content):
        return tuple(sorted(Origin(*name, date) for name, (own, date) in self.read.items() if own == content))

    def items(self):
        """The shortest history that leads to the same bank."""
        return [(name, *value) for name, value in self.read.items()] or [
            (("", ""), content, None) for content in self.bare
        ]


def records(made, items):
    return [made.item(source, content, part, date) for (source, part), content, date in items]


class BankUnderTest:
    """A bank in a file, and what it should hold after the steps applied to it."""

    def __init__(self, made, folder, keeps_origins, keeps_text):
        self.made, self.path = made, folder / "bank.mbc"
        self.kind = {"keeps_origins": keeps_origins, "keeps_text": keeps_text}
        self.bank = made.bank(self.path, **self.kind)
        self.expected = ExpectedBank(keeps_origins)
        self.seen: set[int] = set()
        self.open = made.text_model().open

    def apply(self, step, given):
        bank, expected, made = self.bank, self.expected, self.made
        if step in ("add", "add by another", "merge", "import"):
            expected.add(given)
            self.seen |= {content for _, content, _ in given}
        if step == "add":
            bank.put(records(made, given))
        elif step == "add by another":
            with MemoryBank.open(self.path) as other:
                other.put(records(made, given))
        elif step in ("merge", "import"):
            with made.bank(**self.kind) as other:
                other.put(records(made, given))
                list(merge(bank, other) if step == "merge" else import_lines(export(other), self.path))
        elif step == "remove":
            assert bank.remove(given) == expected.remove(given)
        elif step == "remove documents":
            assert bank.remove((), list(map(made.digest, given))) == expected.remove_documents(given)
        elif step == "remove all but":
            names = [origin[:2] for document in bank.documents() for origin in document.origins if origin[0] != given]
            assert bank.remove(names) == expected.remove(names) == len(names)
        elif step == "fail":
            with pytest.raises(ValueError, match="must be in"):
                bad = made.item("/bad", 99, codes=np.full((1, 3, 2), 5), texts=[Chunk("bad", 0)])
                bank.put([*records(made, given), bad])
        elif step == "compact":
            bank.compact()
        elif step == "recode":
            self.recode(*given)
        elif step == "reopen":
            bank.close()
            self.bank = MemoryBank.open(self.path)

    def recode(self, to_lm, rounds):
        stop = threading.Event()
        for number, _ in enumerate(self.bank.recode_texts(self.open, to_lm=to_lm, stop=stop), 1):
            if number == rounds:
                stop.set()

    def check(self):
        """What is cheap enough to check after every step."""
        bank, contents = self.bank, self.expected.contents
        chunks = sum(len(self.made.codes(content)) for content in contents)
        assert bank.totals() == (type(bank.totals())(len(contents), len(self.expected.read), chunks))
        assert np.array_equal(bank.counts(), self.made.counts(contents))

    def check_lookups(self):
        bank, expected, made = self.bank, self.expected, self.made
        width = 2 * bank.header.digest_bytes
        contents = {made.digest(content)[:width]: content for content in expected.contents}
        listed: list[Any] = []
        texts: list[Chunk] = []
        for document in bank.documents(whole=True):
            content = contents.pop(document.digest)
            assert np.array_equal(document.codes, made.codes(content))
            assert document.origins == expected.origins(content)
            assert document.size == (100 + content if expected.keeps_origins else None)
            listed += [(document, ordinal, code) for ordinal, code in enumerate(document.codes)]
            texts += made.chunks(content)
            if bank.header.keeps_text:
                assert [decode_chunk(text, self.open) for text in document.texts] == made.chunks(content)
        assert not contents
        assert list(bank.documents(whole=True)) == list(bank.documents())
        if listed:
            assert np.array_equal(
                np.concatenate([codes for codes, _ in bank.blocks()]), [code for _, _, code in listed]
            )
        wanted = np.random.default_rng(0).integers(0, max(len(listed), 1), 2 * len(listed))
        assert np.array_equal(bank.codes_at(wanted), [listed[at][2] for at in wanted] or bank.codes_at([]))
        assert [(chunk.document, chunk.ordinal) for chunk in bank.chunks_at(wanted)] == [
            listed[at][:2] for at in wanted
        ]
        if bank.header.keeps_text:
            assert bank.texts_at(wanted, self.open) == [texts[at] for at in wanted]
            payloads = sum(len(encode_chunk(chunk).payload) for chunk in texts)
            assert 4 * len(texts) <= bank.sizes().texts <= payloads + 40 * len(texts)
            with pytest.raises(IndexError):
                bank.texts_at([len(listed)])
            words = [number_of(word) for word in ("quick", "8", "日本", "absent")]
            found = [[at for at, chunk in enumerate(texts) if word in word_numbers(chunk.text)] for word in words]
            for some in (words, words[:3]):  # once an index is known, only parts of it are read
                assert [own.tolist() for own in bank.chunks_with(some)] == found[: len(some)]
            assert bank.chunks_with([]) == []
        else:
            assert bank.sizes().texts == 0
        for index in (-1, len(listed)):
            with pytest.raises(IndexError):
                bank.codes_at([index])
            with pytest.raises(IndexError):
                bank.chunks_at([index])
        for content in range(16):
            like = [document.digest for document in bank.lookup((), [made.digest(content)])]
            assert like == [made.digest(content)[:width]] * (content in expected.contents)
            known = bank.knows(made.record("/a", content, "1"))
            assert known == (
                expected.read.get(("/a", "1"), (None,))[0] == content if expected.keeps_origins else bool(like)
            )
        for source in ("/a", "/b", "/nowhere"):
            assert bank.parts_of(source) == {part for own, part in expected.read if own == source}
            for part in ("", "1"):
                found = bank.lookup([(source, part)])
                if name := expected.read.get((source, part)):
                    assert [own.digest for own in found] == [made.digest(name[0])[:width]]
                    assert np.array_equal(found[0].codes, made.codes(name[0]))
                else:
                    assert found == []

    def check_against_never_seen(self, folder):
        bank, expected, made = self.bank, self.expected, self.made
        lines = made.lines(bank)
        with made.bank(**self.kind) as anew:
            anew.put(records(made, expected.items()[::-1]))
            assert made.lines(anew) == lines
        with made.bank(**self.kind) as one_by_one:
            for item in expected.items():
                one_by_one.put(records(made, [item]))
            assert made.lines(one_by_one) == lines
        imported = folder / "imported.mbc"
        list(import_lines(io.BytesIO(lines), imported))
        with MemoryBank.open(imported) as again:
            assert made.lines(again) == lines

    def check_file(self):
        bank, expected, made = self.bank, self.expected, self.made
        assert made.damages(self.path) == []
        assert [event for event in verify(self.path, self.open) if isinstance(event, DamageFound)] == []
        bank.checkpoint()
        data = self.path.read_bytes()
        for content in self.seen - expected.contents:
            assert bytes.fromhex(made.digest(content))[: bank.header.digest_bytes] not in data
            if self.kind["keeps_text"]:
                left = [encode_chunk(chunk).payload for own in expected.contents for chunk in made.chunks(own)]
                for payload in {encode_chunk(chunk).payload for chunk in made.chunks(content)}:
                    assert any(payload in own for own in left) or len(payload) < 8 or payload not in data


@pytest.mark.parametrize(("keeps_origins", "keeps_text"), [(True, True), (False, False)])
def test_any_history_equals_a_dict(made, tmp_path_factory, rounds, keeps_origins, keeps_text):
    @settings(max_examples=rounds(full=600, reduced=14))
    @given(steps=STEPS)
    def run(steps):
        folder = tmp_path_factory.mktemp("history")
        tested = BankUnderTest(made, folder, keeps_origins, keeps_text)
        try:
            for step in steps:
                tested.apply(*step)
                tested.check()
            tested.check_lookups()
            tested.check_against_never_seen(folder)
            tested.check_file()
        finally:
            tested.bank.close()

    run()


@given(items=st.lists(READ, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3))
def test_shards_ingested_apart_merge_to_the_bank_of_one_ingest(made, items, cuts):
    ends = [*sorted(cuts), len(items)]
    shards = [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    with made.bank(keeps_text=True) as serial, made.bank(keeps_text=True) as merged:
        serial.put(records(made, items))
        for shard in shards:
            with made.bank(keeps_text=True) as other:
                other.put(records(made, shard))
                list(merge(merged, other))
        assert made.lines(merged) == made.lines(serial)
        assert np.array_equal(merged.counts(), serial.counts())
