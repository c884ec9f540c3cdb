"""Small parts for reads: codebooks of five codes, documents of random codes, and their vectors written out.

Also base LMs of every family, three layers deep, with prefixes and whole forward passes to compare with.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

from mbc_engine.bank import BankHeader, Codes, MemoryBank, ModelSignature, Origin, StoredDocument
from mbc_engine.lm.base import BaseLM, KVPrefix, load_base
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import Router
from mbc_engine.paper.reads import Reader
from mbc_engine.ranking import Lengths

TOKENS, DIM, CODES = 3, 6, 5
MODES = ("flat", "routed", "hierarchical:3")
QUESTIONS = ["Ada?", "Where did the old painter move to in the winter?", "x", "Who moved?"]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 96,
    "sliding_window": 60,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Small:
    """Makes the parts that reads need, always the same for the same arguments."""

    tokens: int = TOKENS
    dim: int = DIM

    def codebook(self, *, levels: int = 1, per_position: bool = False, seed: int = 0) -> Codebook:
        torch.manual_seed(seed)
        codebook = Codebook(CODES, DIM, TOKENS, levels=levels, per_position=per_position)
        with torch.no_grad():
            codebook.books.normal_()
        return codebook.requires_grad_(False)

    def codes(self, chunks: int, levels: int = 1, seed: int = 0) -> Codes:
        return np.random.default_rng(seed).integers(0, CODES, (chunks, TOKENS, levels)).astype(np.uint16)

    def reader(
        self,
        codebook: Codebook | None = None,
        *,
        routed: bool = False,
        documents: int = 2,
        pass_through: bool = False,
    ) -> Reader:
        torch.manual_seed(7)
        aggregator = Aggregator(DIM, blocks=2, heads=2, head_dim=4, hidden=8, pass_through=pass_through)
        aggregator.requires_grad_(False)
        router = Router(DIM).requires_grad_(False)
        torch.nn.init.normal_(router.weight)
        return Reader(aggregator, codebook or self.codebook(), router if routed else None, documents, 4)

    def question(self, questions: int = 2, seed: int = 3) -> Tensor:
        return torch.randn(questions, TOKENS, DIM, generator=torch.Generator().manual_seed(seed))

    def dense(self, codebook: Codebook, codes: Codes) -> Tensor:
        """All chunks' vectors by one look-up each, [N, T, D]."""
        result = torch.zeros(len(codes), TOKENS, DIM)
        for chunk, token, level in np.ndindex(*codes.shape):
            position = token if codebook.per_position else 0
            result[chunk, token] += codebook.books[level, position, int(codes[chunk, token, level])]
        return result

    def documents(self, lengths: Lengths) -> list[int]:
        """The number of the document that each chunk belongs to."""
        return [number for number, length in enumerate(lengths.tolist()) for _ in range(length)]

    def bank(
        self,
        codebook: Codebook,
        codes: Codes,
        lengths: Lengths,
        *,
        dates: Sequence[str | None] | None = None,
        keeps_origins: bool = True,
        first: int = 0,
    ) -> MemoryBank:
        """A bank of documents /0, /1, ... in that order, or from another number on."""
        bank = MemoryBank.create(
            None,
            ModelSignature("small", "aa" * 8, "bb" * 8),
            codebook.shape,
            codebook.books.shape[-1],
            keeps_origins=keeps_origins,
        )
        pieces = np.split(codes, np.cumsum(lengths))[:-1]
        numbered = enumerate(zip(dates or [None] * len(lengths), pieces, strict=True), first)
        bank.put(
            [
                StoredDocument(
                    hashlib.sha256(b"%d" % number).hexdigest(), len(own), 1, (Origin(f"/{number}", "", date),), own
                )
                for number, (date, own) in numbered
            ]
        )
        return bank


@pytest.fixture(scope="session")
def small() -> Small:
    return Small()


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    """Banks with five chunks to a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
        yield


def modes_of(codebook: Codebook) -> Sequence[str]:
    """The reads of these codes; residual ones cannot be read flat."""
    return MODES if codebook.levels == 1 else MODES[1:]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))


# Fused projections, grouped queries, sliding windows, capped and scaled logits, a parallel block.
DIFFERENT = ("gpt2", "llama", "mistral", "gemma2", "granite", "phi")


@pytest.fixture(scope="module", params=DIFFERENT)
def every_base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    """A base LM of each kind of family; those that can slide see 60 columns."""
    if request.param in tiny.bases:
        return load_base(str(tiny.bases[request.param]))
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    config = AutoConfig.for_model(request.param, vocab_size=len(tokenizer), **SIZES)
    torch.manual_seed(0)
    return BaseLM(AutoModelForCausalLM.from_config(config).eval(), tokenizer)


def prefix_for(base: BaseLM, batch: int, *, seed: int = 0, size: float = 2.0) -> KVPrefix:
    shape = base.shape
    torch.manual_seed(seed)
    keys, values = (torch.randn(batch, shape.layers, shape.kv_heads, 3, shape.head_dim) * size for _ in range(2))
    return KVPrefix(keys, values)


def alone(prefix: KVPrefix, index: int) -> KVPrefix:
    return KVPrefix(prefix.keys[index : index + 1], prefix.values[index : index + 1])


def ids_of(base: BaseLM, text: str) -> list[int]:
    return base.tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def plain_logits(base: BaseLM, prefix: KVPrefix, ids: list[int]) -> Tensor:
    """One unpadded text after one prefix, the whole forward pass: [S, V]."""
    length = prefix.length
    return base.model(
        input_ids=torch.tensor([ids]),
        position_ids=torch.arange(length, length + len(ids)).unsqueeze(0),
        attention_mask=torch.ones(1, length + len(ids), dtype=torch.int64),
        past_key_values=prefix.cache(torch.float32),
    ).logits[0]


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """The token ids that `generate` gives the model, padding left out."""

    def prompts(base: BaseLM, prefix: KVPrefix, questions: list[str], **options: Any) -> list[list[int]]:
        seen: list[list[int]] = []
        generate = base.model.generate

        def watched(*, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> Tensor:
            for ids, mask in zip(input_ids, attention_mask[:, prefix.length :], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return generate(input_ids=input_ids, attention_mask=attention_mask, **rest)

        with monkeypatch.context() as patch:
            patch.setattr(base.model, "generate", watched)
            base.generate(prefix, questions, **options)
        return seen

    return prompts


def weight_overrides(base: str, encoder: str, frozen: bool = False) -> list[str]:
    """Settings for the weight formats of the base LM and both encoders."""
    sides = [f"model.{side}.weights={encoder}" for side in ("documents", "questions")]
    sides += [f"model.{side}.frozen={str(frozen).lower()}" for side in ("documents", "questions")]
    return [f"model.base_weights={base}", *sides]


@pytest.fixture(scope="module")
def wide(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tiny models again, 64 wide, as a CPU needs them to compute with 4 bits."""
    sizes: dict[str, dict[str, Any]] = {
        "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 160},
        "llama": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
        "bert": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4},
        "t5": {"d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 1, "num_heads": 2},
    }
    places = {}
    for family, kind in (
        *((name, AutoModelForCausalLM) for name in tiny.bases),
        *((n, AutoModel) for n in tiny.encoders),
    ):
        tokenizer = AutoTokenizer.from_pretrained({**tiny.bases, **tiny.encoders}[family])
        given = {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, **sizes[family]}
        places[family] = tmp_path_factory.mktemp(family)
        torch.manual_seed(5)
        kind.from_config(AutoConfig.for_model(family, vocab_size=len(tokenizer), **given)).save_pretrained(
            places[family]
        )
        tokenizer.save_pretrained(places[family])
    return type(tiny)({name: places[name] for name in tiny.bases}, {name: places[name] for name in tiny.encoders})
