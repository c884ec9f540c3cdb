"""Encoders that run without transformers: the same states, vectors and tokens as with it."""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import Bert, EncoderTokenizer, open_encoder
from mbc_engine.lm.encoders import Encoder, load_encoder
from mbc_engine.lm.packaged import MINILM
from mbc_engine.lm.pretrained import state_digest
from tests.needs import embedded_encoder
from tests.newswire import stories

TEXTS = ["Ada moved to Aalen.", "", "Who moved? [SEP] Hugo.", "The river rose, the bridge held, " * 20, "Gdańsk"]


def test_bert_states() -> None:
    torch.manual_seed(3)
    config = BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40)
    theirs, (ids, mask, types) = BertModel(config).eval(), batch()
    ours = Bert(config.to_dict(), theirs.state_dict())
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        assert torch.equal(ours(ids, mask, types).last_hidden_state, expected)
        alone = theirs(input_ids=ids[:1], attention_mask=mask[:1]).last_hidden_state
        assert torch.equal(ours(ids[:1], mask[:1]).last_hidden_state, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mpnet_states(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    config = MPNetConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40
    )
    theirs = MPNetModel(config).eval()
    torch.nn.init.normal_(theirs.encoder.relative_attention_bias.weight)
    theirs, (ids, mask, _) = theirs.to(dtype), batch(length=300, pad=1)
    ours = Bert(config.to_dict(), theirs.state_dict())
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
        is_token = mask.bool()
        states = ours(ids, mask).last_hidden_state
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(states[is_token], expected[is_token], rtol=0, atol=tolerance)


def batch(length: int = 30, pad: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, mask and types of a whole row and a padded one."""
    ids, mask = torch.randint(3, 50, (2, length)), torch.ones(2, length, dtype=torch.long)
    ids[1, 11:], mask[1, 11:] = pad, 0
    return ids, mask, torch.arange(length).expand(2, -1) // 7 % 2


def test_open_encoder(tiny: Any) -> None:
    name = str(tiny.encoders["bert"])
    ours, theirs = open_encoder(name), load_encoder(name)
    assert isinstance(ours.model, Bert)
    assert state_digest(ours.model.state_dict()) == state_digest(theirs.model.state_dict())
    same(ours, theirs, window=12)
    assert ours.chunker(12).capacity == theirs.chunker(12).capacity == 10
    ids, mask = ours.tokenize(TEXTS, 12)
    assert [own.tolist() for own in theirs.tokenize(TEXTS, 12)] == [ids.tolist(), mask.tolist()]


def same(ours: Encoder, theirs: Encoder, *, window: int) -> None:
    for text in TEXTS:
        assert torch.equal(ours.pooled([text], window), theirs.pooled([text], window))
        plain = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        own, known = ours.tokenizer(text, **plain), theirs.tokenizer(text, **plain)
        assert (own["input_ids"], own["offset_mapping"]) == (known["input_ids"], known["offset_mapping"])
    for one in ("cls_token_id", "sep_token_id", "pad_token_id"):
        assert getattr(ours.tokenizer, one) == getattr(theirs.tokenizer, one)


def test_other_encoders_open_with_transformers(tiny: Any, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(tiny.encoders["bert"], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert not isinstance(open_encoder(str(folder)).model, Bert)
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    with pytest.raises(ModelError, match="do not match its config"):
        open_encoder(str(folder))


@embedded_encoder
def test_packaged_encoder() -> None:
    ours, theirs = open_encoder(MINILM), load_encoder(MINILM)
    assert isinstance(ours.tokenizer, EncoderTokenizer)
    assert state_digest(ours.model.state_dict()) == state_digest(theirs.model.state_dict())
    same(ours, theirs, window=64)
    for story in islice(stories("test", 8, seed=1), 8):
        assert torch.equal(ours.pooled([story.text], 256), theirs.pooled([story.text], 256))
