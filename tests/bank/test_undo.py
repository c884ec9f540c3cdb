"""Documents removed from a bank come back as they were, whatever happened in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, CodeShape, MemoryBank, ModelSignature, database, exchange
from mbc_engine.bank.exchange import remove_undoably, undo_removal
from mbc_engine.errors import BankError, ModelMismatch

NAMES = st.tuples(st.sampled_from([f"/{letter}" for letter in "abcdef"]), st.sampled_from(["", "1"]))
CONTENTS = st.integers(0, 9)
ITEMS = st.lists(st.tuples(NAMES, CONTENTS, st.sampled_from([None, "2020", "2021"])), max_size=12)
CHOSEN = st.tuples(st.lists(NAMES, max_size=5), st.lists(CONTENTS, max_size=3))


def records(made, items):
    return [made.item(source, content, part, date) for (source, part), content, date in items]


@pytest.mark.parametrize("keeps_origins", [True, False])
def test_undo_adds_only_what_is_missing(made, path, rounds, keeps_origins):
    """The reference: what was removed is read again under every name that is still free."""

    @settings(max_examples=rounds(full=400, reduced=8))
    @given(items=ITEMS, chosen=CHOSEN, further=ITEMS)
    def run(items, chosen, further):
        names, digests = chosen[0], list(map(made.digest, chosen[1]))
        database.delete(path)
        kind = {"keeps_origins": keeps_origins, "keeps_text": True}
        with (
            pytest.MonkeyPatch.context() as patch,
            made.bank(path, **kind) as bank,
            made.bank(**kind) as plain,
            made.bank(**kind) as removed_plainly,
        ):
            patch.setattr(BankHeader, "block_chunks", property(lambda header: 7))
            patch.setattr(exchange, "_BATCH", 2)
            bank.put(records(made, items))
            whole = made.lines(bank)
            before = {origin[:2]: origin for origin in bank.origins()}
            contents_before = {document.digest for document in bank.documents()}
            removed = remove_undoably(bank, names, digests)
            left = {origin[:2] for origin in bank.origins()}
            gone = contents_before - {document.digest for document in bank.documents()}
            removed_plainly.put(records(made, items))
            removed_plainly.remove(names, digests)
            assert made.lines(bank) == made.lines(removed_plainly)
            bank.put(records(made, further))
            now = {origin[:2] for origin in bank.origins()}

            contents = {name: content for name, content, _ in items}
            back = [
                (name, contents[name], before[name].date) for name in before if name not in left and name not in now
            ]
            if not keeps_origins:
                back = [item for item in items if made.digest(item[1])[:12] in gone]
            plain.put(list(bank.documents(whole=True)))
            counted = "origins" if keeps_origins else "documents"
            count = getattr(plain.totals(), counted)
            plain.put(records(made, back))
            assert removed == (len(before.keys() - left) if keeps_origins else len(gone))
            if removed:
                assert undo_removal(bank) == (getattr(plain.totals(), counted) - count, removed)
            with pytest.raises(BankError, match="can be undone"):
                undo_removal(bank)
            assert made.lines(bank) == made.lines(plain)
            assert np.array_equal(bank.counts(), plain.counts())
            assert further or made.lines(bank) == whole

    run()


def test_restore_into_other_model_is_refused(made, bank, path):
    bank.put([made.item("/a", 1)])
    remove_undoably(bank, [("/a", "")])
    other = path.with_name("other.mbc")
    signature = ModelSignature("mini", "aa" * 8, "cc" * 8)
    database.beside(path, "removed").rename(database.beside(other, "removed"))
    with MemoryBank.create(other, signature, made.shape, made.dim) as another:
        with pytest.raises(ModelMismatch):
            undo_removal(another)
        assert another.totals().documents == 0


def test_a_removal_ends_the_undo_of_an_earlier_one(made, bank):
    bank.put([made.item(name, number) for number, name in enumerate(("/a", "/b", "/c"))])
    assert remove_undoably(bank, [("/a", "")]) == 1
    assert remove_undoably(bank, [("/d", "")]) == bank.remove([]) == 0
    assert remove_undoably(bank, [("/b", "")]) == 1
    assert undo_removal(bank) == (1, 1)
    assert sorted(origin.source for origin in bank.origins()) == ["/b", "/c"]
    remove_undoably(bank, [("/b", "")])
    bank.remove([("/c", "")])
    with pytest.raises(BankError, match="can be undone"):
        undo_removal(bank)


def test_what_is_kept_for_an_undo_may_be_of_another_shape(made, bank, path):
    bank.put([made.item("/a", 1)])
    shape = CodeShape(1, 1, 2, per_position=True)
    MemoryBank.create(path.with_name(f"{path.name}.removed"), made.signature, shape, made.dim).close()
    with pytest.raises(BankError, match=r"\.removed is damaged"):
        undo_removal(bank)


def test_a_removal_that_fails_leaves_the_undo_before_it(made, bank, path, monkeypatch):
    bank.put([made.item(f"/{name}", number) for number, name in enumerate("abc")])
    remove_undoably(bank, [("/a", "")])

    def refuse(*_given, **_options):
        raise BankError("The disk is full.")

    for name in ("put", "remove"):  # what is kept, and the bank itself
        with monkeypatch.context() as patch, pytest.raises(BankError, match="full"):
            patch.setattr(MemoryBank, name, refuse)
            remove_undoably(bank, [("/b", "")])
    assert {origin.source for origin in bank.origins()} == {"/b", "/c"}
    assert undo_removal(bank) == (1, 1)
    assert len(list(bank.origins())) == 3
    assert {file.name for file in path.parent.iterdir()} <= {path.name, f"{path.name}-wal", f"{path.name}-shm"}


def test_what_an_interrupted_removal_left_is_no_undo(made, bank, path):
    bank.put([made.item(f"/{name}", number) for number, name in enumerate("abc")])
    remove_undoably(bank, [("/a", "")])
    database.beside(path, "removed").rename(database.beside(path, "removed.new"))
    bank.remove([("/b", "")])
    with pytest.raises(BankError, match="can be undone"):
        undo_removal(bank)
    assert not [file.name for file in path.parent.iterdir() if "removed" in file.name]
