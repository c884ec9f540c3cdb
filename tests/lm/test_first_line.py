"""Where an answer ends and how it is streamed, against decoding all of it at once, for both kinds of tokenizer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mbc_engine.lm.base import DECODING, Streamer, first_line, first_line_ends


def byte_level():
    """As GPT-2: every token stands for bytes, some for several."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    several = [level.pre_tokenize_str(text)[0][0] for text in (" Ada", " 東", ".\n", "\n x y")]
    vocabulary = {token: index for index, token in enumerate([*sorted(level.alphabet()), *several, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = level, decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def byte_fallback():
    """As LLaMA-2: a space before each text, and bytes for what is in no token."""
    tokens = ["<end>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"Ada", "東", "▁x"]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<end>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


TOKENIZERS = {"byte level": byte_level(), "byte fallback": byte_fallback()}
texts = st.text(st.sampled_from("Ada x.é東京§\n\r\t\u3000🙂"), max_size=20)
tokens = st.lists(st.integers(0, len(TOKENIZERS["byte level"]) - 1), max_size=20)


def streamed(tokenizer, ids):
    """The pieces streamed when a model generates `ids` after a prompt, and how many of the ids it takes."""
    pieces: list[str] = []
    streamer, ending = Streamer(tokenizer, pieces.append), first_line_ends(tokenizer, 2)
    streamer.put(torch.tensor([[5, 6]]))
    taken = 0
    while taken < len(ids) and not (taken and ending(torch.tensor([[5, 6, *ids[:taken]]]), None).item()):
        streamer.put(torch.tensor([ids[taken]]))
        taken += 1
    streamer.end()
    return pieces, taken


def check(tokenizer, ids):
    """The pieces, whose join is what the whole would give, from no more tokens than that takes."""
    pieces, taken = streamed(tokenizer, ids)
    whole = first_line(tokenizer.decode(ids, **DECODING))
    assert "".join(pieces).strip() == whole == first_line(tokenizer.decode(ids[:taken], **DECODING))
    ends = ["\n" in tokenizer.decode(ids[:length], **DECODING).lstrip() for length in range(len(ids) + 1)]
    assert taken == (ends.index(True) if True in ends else len(ids))
    return pieces


@given(tokens)
def test_streaming_equals_decoding(ids):
    check(TOKENIZERS["byte level"], ids)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts)
def test_no_broken_character_is_streamed(name, text):
    tokenizer = TOKENIZERS[name]
    pieces = check(tokenizer, tokenizer(text)["input_ids"])
    assert "".join(pieces).strip() == first_line(text)
    assert "\ufffd" not in "".join(pieces)
    assert all(pieces)


def test_rows_end_independently():
    tokenizer = TOKENIZERS["byte level"]
    rows = [tokenizer(text)["input_ids"] for text in ("\nAda", "Ada\n", "\nA\nb", "    ", "A   ")]
    assert first_line_ends(tokenizer, 0)(torch.tensor(rows), None).tolist() == [False, True, True, False, False]
    assert first_line_ends(tokenizer, 2)(torch.tensor(rows), None).tolist() == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "line"),
    [("", ""), (" \n ", ""), ("\n Ada \r\nHugo", "Ada"), ("Ada\x0bHugo\u2028x\n", "Ada\x0bHugo\u2028x")],
)
def test_first_line(text, line):
    assert first_line(text) == line
