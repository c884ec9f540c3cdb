"""The model that remembers words: what its codes say, how they are found and read, and what it is bound to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mbc_engine.bank import Codes, MemoryBank, Record
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model.bank_binding import fingerprints, open_bank
from mbc_engine.model.builder import build, load_pretrained
from mbc_engine.model.checkpoint import load_model, save_model, trained_state
from mbc_engine.model.code_memory import BankMemory, CodeMemory
from mbc_engine.model.memory import Lengths
from mbc_engine.model.skeleton import parameter_table
from mbc_engine.model.vector_memory import VectorMemory
from mbc_engine.model.word_mbc import WORD_SHARE, AddressRouting, WordMBC

WORDS = 5
SETTINGS = (
    "model.codebook.codes=64",
    "model.routing=true",
    "model.read=routed:2",
    f"model.words={{ words = {WORDS}, role_dim = 6, heads = 2, address = 3, address_dim = 4 }}",
    "model.documents.frozen=true",
    "model.questions.frozen=true",
)
TEXTS = (
    "Ada moved to Bergen in the spring.",
    "Hugo",
    "Hugo moved to Haifa and nobody was hurt, but the river rose in the spring and the bridge was repaired.",
    "The river rose.",
    "Ada repaired the bridge to Haifa.",
)
LENGTHS = np.array([2, 1, 2])
QUESTIONS = ("Where did Ada move?", "Who moved to Haifa in the spring?")


@pytest.fixture
def model(tiny: Any) -> WordMBC:
    made = tiny.model("gpt2", "bert", *SETTINGS)
    assert isinstance(made, WordMBC)
    return made


def remembered(model: WordMBC, codes: Codes, lengths: Lengths = LENGTHS) -> CodeMemory:
    return CodeMemory(codes, model.codebook, lengths)


def split(model: WordMBC, codes: Codes) -> tuple[Tensor, Tensor, Tensor]:
    pieces, roles, address = model.codebook.split(torch.from_numpy(codes.astype(np.int64)))
    return pieces, roles.role, address


def test_a_chunk_is_the_words_likeliest_to_be_asked_for(model: WordMBC) -> None:
    codes = model.memorise(TEXTS)
    assert codes.shape == (len(TEXTS), 3 + 3 * WORDS, 1)
    pieces, roles, _ = split(model, codes)
    assert roles.max() < model.codebook.roles
    for text, own in zip(TEXTS, pieces.tolist(), strict=True):
        every = model.base.tokenizer(text)["input_ids"]
        left = iter(every)
        assert all(piece in left for piece in own[: len(every)])  # in the order of the text


def test_each_words_odds_and_role_are_those_of_its_state(model: WordMBC) -> None:
    text, side = TEXTS[0], model.documents
    pieces, roles, address = split(model, model.memorise([text]))
    batch = side.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    states = side.amortizer.encoder(batch["input_ids"]).last_hidden_state[0]
    cut = model.base.tokenizer(text, return_offsets_mapping=True)
    odds, contexts = [], []
    for piece, (first, end) in zip(cut["input_ids"], cut["offset_mapping"], strict=True):
        start = first + (text[first] == " ")
        shared = [max(start, own) < min(end, ends) for own, ends in batch["offset_mapping"][0].tolist()]
        state = states[torch.tensor(shared)].mean(0)
        odds.append(side.amortizer.salience(state, torch.tensor(piece), model.codebook.vocabulary).item())
        contexts.append(side.amortizer.told(state))
    best = sorted(sorted(range(len(odds)), key=odds.__getitem__)[-WORDS:])
    assert pieces[0].tolist() == [cut["input_ids"][place] for place in best]
    distances = torch.cdist(torch.stack([contexts[place] for place in best]), model.codebook.role_book)
    assert roles[0].tolist() == distances.argmin(-1).tolist()
    book = model.codebook.address
    vector = book.documents(states[None], batch["attention_mask"])
    assert address[0].tolist() == book.encode(vector)[0].tolist()


def test_a_text_of_few_words_is_filled_up_alike(model: WordMBC) -> None:
    pieces, roles, _ = split(model, model.memorise(["Hugo", "Ada", ""]))
    own = [len(model.base.tokenizer(text)["input_ids"]) for text in ("Hugo", "Ada", "")]
    assert max(own) < WORDS
    filled = [
        (row[count:].tolist(), told[count:].tolist()) for row, told, count in zip(pieces, roles, own, strict=True)
    ]
    assert not any(any(rest) for rest, _ in filled)
    assert len({role for _, rest in filled for role in rest}) == 1


@pytest.mark.parametrize("size", [1, 2, 32])
def test_codes_do_not_depend_on_what_is_memorised_along(model: WordMBC, size: int) -> None:
    alone = np.concatenate([model.memorise([text]) for text in TEXTS])
    assert np.array_equal(model.memorise(TEXTS, batch_size=size), alone)
    assert np.array_equal(model.memorise(TEXTS[::-1], batch_size=size)[::-1], alone)


def test_a_chunks_address_alone_is_worth_something(model: WordMBC) -> None:
    codes, tables = model.memorise(TEXTS), torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    (masses,) = remembered(model, codes).scores(AddressRouting(tables), torch.zeros(2, 4, 32))
    expected = np.zeros((2, len(TEXTS)))
    for question, chunk, part in np.ndindex(2, len(TEXTS), 3):
        expected[question, chunk] += tables[question, part, codes[chunk, part, 0]].item()
    np.testing.assert_allclose(masses.values, expected, rtol=1e-5)
    assert masses.lengths.tolist() == LENGTHS.tolist()


def test_documents_are_found_by_their_addresses_and_the_words_they_share_with_a_question(model: WordMBC) -> None:
    codes, book, side = model.memorise(TEXTS), model.codebook, model.questions
    with torch.no_grad():
        book.rarity.uniform_(generator=torch.Generator().manual_seed(0))
    pieces, _, addresses = split(model, codes)
    ids, mask = side.tokenize(QUESTIONS)
    states = side.amortizer.contextualise(ids, mask)
    focus, scale = book.address.focus(addresses), book.address.log_scale.exp().item()
    tables = book.address.tables(book.address.questions(states, mask), focus)
    scores = np.zeros((len(QUESTIONS), len(TEXTS)))
    for (question, text), chunk in [(own, chunk) for own in enumerate(QUESTIONS) for chunk in range(len(TEXTS))]:
        for part, code in enumerate(addresses[chunk].tolist()):
            scores[question, chunk] += tables[question, part, code].item()
        for piece in {*model.base.tokenizer(text)["input_ids"]} & {*pieces[chunk].tolist()}:
            scores[question, chunk] += WORD_SHARE * scale * book.rarity[piece].item()
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    by_document = np.add.reduceat(shares, [0, 2, 3], axis=1)
    reading = model.read(QUESTIONS, remembered(model, codes), top=3)
    for found, expected in zip(reading.sources, by_document, strict=True):
        assert [[0, 0, 1, 2, 2][own.chunk] for own in found] == np.argsort(-expected).tolist()
        np.testing.assert_allclose([own.share for own in found], np.sort(expected)[::-1], rtol=1e-4)


def test_with_a_reader_that_is_kept_a_memory_is_looked_at_once(model: WordMBC, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, other, reader, looks = *(remembered(model, model.memorise(TEXTS)) for _ in range(2)), model.reader(), []
    expected, real = model.read(QUESTIONS, memory).sources, model.codebook.address.focus
    monkeypatch.setattr(model.codebook.address, "focus", lambda codes: looks.append(codes) or real(codes))
    for own, count in ((memory, 1), (memory, 1), (other, 2)):
        assert model.read(QUESTIONS, own, reader=reader).sources == expected
        assert len(looks) == count


def test_what_is_read_are_the_words_of_the_best_chunks(model: WordMBC) -> None:
    codes = model.memorise(TEXTS)
    reading = model.read(QUESTIONS, remembered(model, codes))
    for index, (ranked, question) in enumerate(zip(reading.chunks, reading.question, strict=True)):
        rows = model.codebook.lookup(torch.from_numpy(codes[[own.chunk for own in ranked[:2]]].astype(np.int64)))
        read = model.aggregator(question[None], rows.flatten(0, 1)[None])
        torch.testing.assert_close(reading.modulation[index], read.modulation[0])
    assert reading.codes is not None
    assert reading.codes.shape == (2, 1, codes.shape[1], 64)
    assert not reading.codes[:, :, :3].any()
    np.testing.assert_allclose(reading.codes.sum((2, 3)), 1, rtol=1e-5)


def test_a_hierarchical_read_of_one_group_reads_all_words(model: WordMBC) -> None:
    codes = model.memorise(TEXTS)
    memory = remembered(model, codes)
    reading = model.read(QUESTIONS, memory, read_mode="hierarchical:8", top=3)
    rows = model.codebook.lookup(torch.from_numpy(codes.astype(np.int64)))
    read = model.aggregator(reading.question, rows.flatten(0, 1)[None])
    torch.testing.assert_close(reading.modulation, read.modulation)
    of_documents = np.add.reduceat(read.attention.detach().numpy(), np.array([0, 2, 3]) * WORDS, axis=1)
    for own, expected in zip(reading.sources, of_documents, strict=True):
        np.testing.assert_allclose([ranked.share for ranked in own], np.sort(expected)[::-1], rtol=1e-4)
    several = model.read(QUESTIONS, memory, read_mode="hierarchical:2", top=3)
    assert all(sum(ranked.share for ranked in own) == pytest.approx(1) for own in several.sources)
    assert several.codes is not None


def test_words_are_not_read_flat_and_vectors_have_no_addresses(model: WordMBC) -> None:
    codes = model.memorise(TEXTS)
    with pytest.raises(ModelError, match="cannot be read flat"):
        model.read(QUESTIONS, remembered(model, codes), read_mode="flat")
    with pytest.raises(ModelError, match="codes of their addresses"):
        model.read(QUESTIONS, VectorMemory(torch.zeros(2, WORDS, 32)))
    with pytest.raises(ModelError, match="codes from the start"):
        model.amortise(TEXTS)


def test_nothing_remembered_leaves_the_question_as_it_is(model: WordMBC) -> None:
    reading = model.read(QUESTIONS, remembered(model, model.memorise([]), np.zeros(0, np.int64)))
    assert torch.equal(reading.modulation, reading.question)


@pytest.mark.parametrize("mode", ["routed:2", "hierarchical:2"])
def test_a_bank_answers_as_the_codes_at_hand(model: WordMBC, tmp_path: Path, mode: str) -> None:
    codes = model.memorise(TEXTS)
    with open_bank(model, tmp_path / "bank.mbc") as bank:
        pieces = np.split(codes, np.cumsum(LENGTHS)[:-1])
        records = [Record(f"/{number}", "", f"{number:x}" * 64, 1, None) for number in range(len(LENGTHS))]
        bank.add(list(zip(records, pieces, strict=True)))
    with MemoryBank.open(tmp_path / "bank.mbc", read_only=True) as bank:
        memories = remembered(model, codes), BankMemory(bank, model.codebook)
        here, there = (model.read(QUESTIONS, memory, read_mode=mode) for memory in memories)
        assert torch.equal(there.modulation, here.modulation)
        assert there.sources == here.sources
        answers = [model.answer(QUESTIONS, memory, read_mode=mode) for memory in memories]
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("part", "binds"),
    [
        ("codebook.role_book", True),
        ("codebook.address.books", True),
        ("base.model.transformer.wte.weight", True),
        ("documents.amortizer.salience.network.0.bias", True),
        ("documents.amortizer.told.weight", True),
        ("codebook.role.weight", False),
        ("codebook.places", False),
        ("aggregator.blocks.0.attention.query.weight", False),
        ("questions.amortizer.queries", False),
    ],
)
def test_a_bank_is_bound_to_what_its_codes_depend_on(model: WordMBC, part: str, binds: bool) -> None:
    before = fingerprints(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    name = next(
        name for name in (part, part.replace("base.model.", "base.model.base_model.model.")) if name in parameters
    )
    with torch.no_grad():
        parameters[name].view(-1)[0] += 1e-3
    assert (fingerprints(model) != before) == binds


def test_a_saved_model_remembers_and_answers_the_same(model: WordMBC, tiny: Any, tmp_path: Path) -> None:
    with torch.no_grad():
        for value in trained_state(model).values():
            value.add_(0.1 * torch.rand_like(value))
    save_model(model, tiny.config("gpt2", "bert", *SETTINGS), tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, WordMBC)
    assert fingerprints(again) == fingerprints(model)
    codes = model.memorise(TEXTS)
    assert np.array_equal(again.memorise(TEXTS), codes)
    assert again.answer(QUESTIONS, remembered(again, codes)) == model.answer(QUESTIONS, remembered(model, codes))


def test_a_base_lm_may_have_too_many_pieces(tiny: Any) -> None:
    settings = tiny.config("gpt2", "bert", *SETTINGS, "model.codebook.codes=8").model
    with pytest.raises(ModelError, match="Two codes of 8 do not tell"):
        build(settings, load_pretrained(settings))


def test_an_encoder_with_a_decoder_tells_no_words(tiny: Any) -> None:
    settings = tiny.config("gpt2", "t5", *SETTINGS).model
    with pytest.raises(ModelError, match="encoder-only"):
        build(settings, load_pretrained(settings))


@pytest.mark.parametrize("setting", ["model.quantised=false", "model.routing=false", "model.read=flat"])
def test_settings_that_words_do_not_go_with_are_refused(tiny: Any, setting: str) -> None:
    with pytest.raises(ConfigError):
        tiny.config("gpt2", "bert", *SETTINGS, setting)


def test_its_parameters_are_counted_without_its_weights(model: WordMBC) -> None:
    table = parameter_table(model.settings)
    own = sum(parameter.numel() for parameter in model.codebook.parameters())
    assert (table["codebook"].trainable, table["codebook"].frozen) == (own, 0)
    assert table.trainable == sum(value.numel() for value in model.parameters() if value.requires_grad)


def test_its_settings_tell_the_shape_of_its_codes(model: WordMBC) -> None:
    book = model.codebook
    assert model.settings.code_numbers == (book.tokens, book.levels, book.num_codes, book.per_position)
