"""Documents removed from a bank come back as they were, whatever happened in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, CodeShape, MemoryBank, ModelSignature
from mbc_engine.bank.exchange import remove_restorable, restore, undo_removal
from mbc_engine.errors import BankError, ModelMismatch

NAMES = st.tuples(st.sampled_from([f"/{letter}" for letter in "abcdef"]), st.sampled_from(["", "1"]))
CONTENTS = st.integers(0, 9)
ITEMS = st.lists(st.tuples(NAMES, CONTENTS, st.sampled_from([None, "2020", "2021"])), max_size=12)
CHOSEN = st.tuples(st.lists(NAMES, max_size=5), st.lists(CONTENTS, max_size=3))


def records(made, items):
    return [made.item(source, content, part, date) for (source, part), content, date in items]


@pytest.mark.parametrize("keeps_origins", [True, False])
def test_restore_adds_only_what_is_missing(made, rounds, keeps_origins):
    """The reference: what was removed is read again under every name that is still free."""

    @settings(max_examples=rounds(full=400, reduced=12))
    @given(items=ITEMS, chosen=CHOSEN, further=ITEMS, removed_later=st.lists(NAMES, max_size=4))
    def run(items, chosen, further, removed_later):
        names, digests = chosen[0], list(map(made.digest, chosen[1]))
        kind = {"keeps_origins": keeps_origins, "keeps_text": True}
        with (
            pytest.MonkeyPatch.context() as patch,
            made.bank(**kind) as bank,
            made.bank(**kind) as plain,
            made.bank(**kind) as removed_plainly,
        ):
            patch.setattr(BankHeader, "block_chunks", property(lambda header: 7))
            bank.put(records(made, items))
            whole = made.lines(bank)
            before = {origin[:2]: origin for origin in bank.origins()}
            removed = remove_restorable(bank, names, digests)
            left = {origin[:2] for origin in bank.origins()}
            removed_plainly.put(records(made, items))
            removed_plainly.remove(names, digests)
            assert made.lines(bank) == made.lines(removed_plainly)
            bank.put(records(made, further))
            bank.remove(removed_later)
            now = {origin[:2] for origin in bank.origins()}

            contents = {name: content for name, content, _ in items}
            back = [
                (name, contents[name], before[name].date) for name in before if name not in left and name not in now
            ]
            if not keeps_origins:
                gone = {document.digest for document in removed.documents}
                back = [item for item in items if made.digest(item[1])[:12] in gone]
            plain.put(list(bank.documents(whole=True)))
            counted = "origins" if keeps_origins else "documents"
            count = getattr(plain.totals(), counted)
            plain.put(records(made, back))
            assert restore(bank, removed) == getattr(plain.totals(), counted) - count
            assert made.lines(bank) == made.lines(plain)
            assert np.array_equal(bank.counts(), plain.counts())
            assert restore(bank, removed) == 0
            assert further or removed_later or made.lines(bank) == whole

    run()


def test_restore_into_other_model_is_refused(made):
    with made.bank() as bank:
        bank.put([made.item("/a", 1)])
        removed = remove_restorable(bank, [("/a", "")])
    other = ModelSignature("mini", "aa" * 8, "cc" * 8)
    with MemoryBank.create(None, other, made.shape, made.dim) as bank:
        with pytest.raises(ModelMismatch):
            restore(bank, removed)
        assert bank.totals().documents == 0


def test_what_is_kept_for_an_undo_may_be_of_another_shape(made, bank, path):
    bank.put([made.item("/a", 1)])
    shape = CodeShape(1, 1, 2, per_position=True)
    MemoryBank.create(path.with_name(f"{path.name}.removed"), made.signature, shape, made.dim).close()
    with pytest.raises(BankError, match=r"\.removed is damaged"):
        undo_removal(bank)
