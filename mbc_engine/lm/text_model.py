"""Text compression with a language model: range coding with the probabilities of `ExactLM`.

"Language modeling is compression" (arXiv 2309.10668): a token of probability p takes -log2 p bits. Each text is coded
separately: its number of tokens in ten bits, then each token given those before it. Range coding is arithmetic coding
in whole bytes (Martin, 1979); integers here are unbounded, so no carry is ever lost.
"""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from mbc_engine.atomic_write import PRIVATE_FILE
from mbc_engine.errors import ModelError
from mbc_engine.lm.encoders import one_by_one, single_threaded
from mbc_engine.lm.exact import ExactLM, ExactShape, Sums, quantise
from mbc_engine.lm.packaged import TEXT_MODEL, find_language_model, require_text_model
from mbc_engine.lm.pretrained import write_tensors

# Part of every fingerprint: increase the number whenever the bytes change.
_VERSION: Final = "mbc-exact-lm-3"
_MOST_TOKENS: Final = 1024
_RANGE_BITS: Final = 56  # least width of a coder's range
_BATCH: Final = 16  # payloads decoded together; each token's keys and values take 46 kB
_KEPT: Final = 4096  # most recently decoded texts


class TextModel:
    """Compresses texts to bytes with a Llama-like LM that has byte-level BPE, and restores them.

    Args:
        tensors: the LM's weights, made by `quantise`.
        fingerprint: 16 hexadecimal digits of a hash of everything that payloads depend on.
        sums: see `ExactLM`.
    """

    def __init__(
        self,
        shape: ExactShape,
        tokenizer: Tokenizer,
        tensors: Mapping[str, Tensor],
        fingerprint: str,
        sums: Sums | None = None,
    ) -> None:
        tokenizer.encode_special_tokens = True  # in a text they are plain text
        self.fingerprint = fingerprint
        self._lm, self._tokenizer, self._tokens = ExactLM(shape, tensors, sums), tokenizer, _token_bytes(tokenizer)
        # What the first token is predicted from: a line break predicts it best of those tried.
        self._first = self._tokens.index(b"\n") if b"\n" in self._tokens else 0
        self._latest: OrderedDict[bytes, str] = OrderedDict()

    def encode(self, texts: Sequence[str]) -> list[bytes | None]:
        """Each text as a payload; None if it has no tokens, over 1,024, or ones that do not restore it exactly.

        As many texts are coded in parallel as torch has threads.
        """
        several = [self._tokenized(text) for text in texts]
        coded = one_by_one(self._intervals, [ids for ids in several if ids])
        return [_range_encoded([(len(ids) - 1, 1, _MOST_TOKENS), *next(coded)]) if ids else None for ids in several]

    def decode(self, payloads: Sequence[bytes]) -> list[str]:
        """The inverse of `encode`. Raises ValueError if bytes are not a payload; other damage gives a wrong text."""
        texts = {payload: self._latest.get(payload) for payload in payloads}
        new = [payload for payload, text in texts.items() if text is None]
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            texts |= zip(batch, self._decoded(batch), strict=True)
        # Another thread may be decoding too.
        for payload, text in texts.items():
            self._latest.pop(payload, None)
            self._latest[payload] = text or ""
        while len(self._latest) > _KEPT:
            self._latest.popitem(last=False)
        return [texts[payload] or "" for payload in payloads]

    def _tokenized(self, text: str) -> list[int]:
        try:
            plain = text.encode()
        except UnicodeEncodeError:  # a lone surrogate
            return []
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        spelt = b"".join(self._tokens[token] or b"" for token in ids)
        return ids if spelt == plain and len(ids) <= _MOST_TOKENS else []

    def _intervals(self, texts: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
        """For each token of the single text: the sum of the frequencies before its own, its own, and the total."""
        (ids,), lm = texts, self._lm
        intervals = []
        states = lm.forward(torch.tensor([[self._first, *ids[:-1]]]), lm.empty_cache(1, len(ids)))[0]
        # A few at a time, to fit a processor's cache.
        for start in range(0, len(ids), 8):
            for frequencies, token in zip(
                lm.frequencies(states[start : start + 8]), ids[start : start + 8], strict=True
            ):
                intervals.append((int(frequencies[:token].sum()), int(frequencies[token]), int(frequencies.sum())))
        return intervals

    def _decoded(self, payloads: Sequence[bytes]) -> list[str]:
        coders = [_RangeDecoder(payload) for payload in payloads]
        lengths = []
        for coder in coders:
            length = coder.target(_MOST_TOKENS)
            coder.take(length, 1)
            lengths.append(length + 1)
        # Longest first, so that unfinished texts are always the first rows of the cache.
        order = sorted(range(len(coders)), key=lambda index: -lengths[index])
        written: list[list[int]] = [[] for _ in coders]
        cache = self._lm.empty_cache(len(coders), max(lengths))
        seconds = {1: 0.0}  # taken by the latest step, by number of threads
        with single_threaded() as most:
            for step in range(max(lengths)):
                # Two threads halve the time if two processors are idle, and take many times as long if not.
                if step == 2:
                    seconds[most] = 0.0
                threads = (max if step % 16 == 15 else min)(seconds, key=seconds.__getitem__)
                torch.set_num_threads(threads)
                began = time.perf_counter()
                working = [index for index in order if lengths[index] > step]
                rows = len(working)
                before = torch.tensor([[written[index][-1] if step else self._first] for index in working])
                known = [(keys[:rows], scales[:rows], values[:rows]) for keys, scales, values in cache]
                frequencies = self._lm.frequencies(self._lm.forward(before, known, step)[:, 0])
                self._take(frequencies, [(coders[index], written[index]) for index in working])
                seconds[threads] = time.perf_counter() - began
        return [b"".join(self._tokens[token] or b"" for token in ids).decode() for ids in written]

    def _take(self, frequencies: Tensor, work: Sequence[tuple["_RangeDecoder", list[int]]]) -> None:
        ends = frequencies.cumsum(1)
        targets = [coder.target(total) for (coder, _), total in zip(work, ends[:, -1].tolist(), strict=True)]
        tokens = torch.searchsorted(ends, torch.tensor(targets).unsqueeze(1), right=True)
        sizes, past = frequencies.gather(1, tokens), ends.gather(1, tokens)
        for (coder, ids), (token,), (size,), (end,) in zip(
            work, *(part.tolist() for part in (tokens, sizes, past)), strict=True
        ):
            coder.take(end - size, size)
            ids.append(token)


def open_text_model(fingerprint: str | None = None) -> TextModel:
    """The built-in language model as a text model, quantised once into the user's cache.

    Raises ModelError if it is not installed or does not have this `fingerprint`.
    """
    if fingerprint is not None:
        require_text_model(fingerprint)
    return _embedded()


@cache
def _embedded() -> TextModel:
    folder = find_language_model()
    path = folder / f"{_VERSION}.safetensors"
    shape, tokenizer = _read_shape(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))

    def stored() -> dict[str, Tensor] | None:
        """The cached tensors if they are intact: text coded with a damaged model could be read nowhere else."""
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError):
            return None
        return tensors if _fingerprint(shape, tokenizer, tensors) == TEXT_MODEL else None

    try:
        if (tensors := stored()) is None:
            with FileLock(path.with_suffix(".lock"), mode=PRIVATE_FILE):
                if (tensors := stored()) is None:
                    tensors = quantise(shape, load_file(folder / "model.safetensors"))
                    if (made := _fingerprint(shape, tokenizer, tensors)) != TEXT_MODEL:
                        raise ModelError(
                            f"The quantised language model is not that of other machines: {made}, not {TEXT_MODEL}.",
                            hint="Use --codec zstd, and report this.",
                        )
                    write_tensors(path, tensors, {})
    except (OSError, SafetensorError) as error:
        hint = "Check the disk's free space and permissions."
        raise ModelError(f"The language model could not be prepared: {error}.", hint=hint) from error
    return TextModel(shape, tokenizer, tensors, TEXT_MODEL)


def _read_shape(folder: Path) -> ExactShape:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    heads, rope = config["num_attention_heads"], config.get("rope_parameters") or config
    return ExactShape(
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        theta=float(rope["rope_theta"]),
        epsilon=config["rms_norm_eps"],
    )


def _fingerprint(shape: ExactShape, tokenizer: Tokenizer, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps([_VERSION, astuple(shape)]).encode())
    for token in _token_bytes(tokenizer):
        digest.update(b"-" if token is None else b"%d " % len(token) + token)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _token_bytes(tokenizer: Tokenizer) -> list[bytes | None]:
    """The bytes of each token of a byte-level BPE, whose vocabulary writes every byte as a printable character."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    bytes_of = {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    vocabulary = tokenizer.get_vocab()
    tokens: list[bytes | None] = [None] * (max(vocabulary.values()) + 1)
    for token, number in vocabulary.items():
        if number not in special and all(character in bytes_of for character in token):
            tokens[number] = bytes(bytes_of[character] for character in token)
    return tokens


def _range_encoded(intervals: Iterable[tuple[int, int, int]]) -> bytes:
    """The fewest bytes that decode to each interval (start, size, total) in turn; total is up to 2^48."""
    low, width, bits = 0, 1 << _RANGE_BITS, _RANGE_BITS
    for start, size, total in intervals:
        unit = width // total
        low, width = low + unit * start, unit * size
        while width < 1 << _RANGE_BITS:
            low, width, bits = low << 8, width << 8, bits + 8
    count = next(size for size in range(bits // 8 + 1) if _rounded_up(low, bits - 8 * size) < low + width)
    return (_rounded_up(low, bits - 8 * count) >> (bits - 8 * count)).to_bytes(count, "big")


def _rounded_up(number: int, bits: int) -> int:
    return -(-number >> bits) << bits


class _RangeDecoder:
    """Decodes intervals; the data continues with zero bytes."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)
        self._width = 1
        self._offset = 0  # of the encoded number within the range
        self._widen()

    def target(self, total: int) -> int:
        """A number in the interval to be taken next, in [0, total)."""
        self._unit = self._width // total
        return min(self._offset // self._unit, total - 1)

    def take(self, start: int, size: int) -> None:
        self._offset -= self._unit * start
        self._width = self._unit * size
        self._widen()

    def _widen(self) -> None:
        while self._width < 1 << _RANGE_BITS:
            self._width, self._offset = self._width << 8, self._offset << 8 | next(self._bytes, 0)
