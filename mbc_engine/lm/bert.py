"""BERT (Devlin et al., 2019) and MPNet (Song et al., 2020) in numpy, and sentence vectors from them.

A question must not wait for torch, whose import takes longer than the answer. Texts are computed without padding, each
on one thread and several at once (`Bert.in_threads`), so that no thread waits for another; where there are fewer texts
than threads, their tokens are divided. On another device than the CPU, and for long work (`Bert.use_torch`), the same
lines run on torch's arrays.
"""

import json
import math
import mmap
import re
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from itertools import accumulate, chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from threadpoolctl import ThreadpoolController
from tokenizers import Tokenizer

from mbc_engine.errors import ModelError
from mbc_engine.lm.packaged import Version, install_hint, local_folder, locate, version_of
from mbc_engine.machine import usable_threads
from mbc_engine.names import WEIGHTS
from mbc_engine.text.chunks import Chunker

Floats = NDArray[np.float32]
# Tokens, [S, E], and what is added to attention's scores, [heads, S, S] or None, to states, [S, E].
Layers = Callable[[Floats, Floats | None], Floats]
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# Parameter names of an attention's query, key, value and output projections, and of the LayerNorm after it.
ATTENTION: Final = {
    "bert": ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm"),
    "mpnet": ("attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm"),
}
_FILES: Final = ("config.json", "tokenizer.json", WEIGHTS)
_TOKENIZING: Final = {
    *("Sequence", "BertNormalizer", "Lowercase", "StripAccents", "Strip", "NFC", "NFD", "NFKC", "NFKD"),
    *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "ByteLevel"),
}
_LONGEST_WORD: Final = 1000  # in characters; the time to divide it grows with their square
_DTYPES: Final = {"F32": np.float32, "F16": np.float16}
# Relative positions beyond this distance share a bias; near ones, up to half the buckets, have their own.
_MAX_DISTANCE: Final = 128
_LEAST_TOKENS: Final = 16  # that are worth a thread of their own
# Tokens that are computed together on another device than the CPU.
_BATCH_TOKENS: Final = 1 << 14
# So many floats stay in the nearest cache while several functions are applied to them.
_BLOCK: Final = 1 << 15


class Bert:
    """A pretrained encoder and its tokenizer.

    Attributes:
        config: as in its `config.json`.
        weights: by their names in transformers' model of the same type.
        device: where it computes.
        layers: what computes its layers instead, text by text; see `quantized.py`.
    """

    _opened_as: Version | None = None
    layers: Layers | None = None

    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, Floats], tokenizer: Tokenizer, *, device: str = "cpu"
    ) -> None:
        self.config, self.weights, self.tokenizer, self.device = config, weights, tokenizer, device
        self.width: int = config["hidden_size"]
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._epsilon: float = config["layer_norm_eps"]
        self.cls, self.sep = tokenizer.encode("").ids
        compute: _Numpy | _Torch = _Numpy() if device == "cpu" else _Torch(device)
        # What computes, on which arrays, and with which low-rank changes.
        self._computing = compute, {name: compute.array(value) for name, value in weights.items()}, dict[str, Any]()

    @property
    def version(self) -> Version | None:
        """Of the file of its weights, when it was opened; None if they are not as in one."""
        # As they are in their file they are mapped, and cannot be changed; recipes and tests put others in place.
        return None if any(value.flags.writeable for value in self.weights.values()) else self._opened_as

    def use_torch(self) -> None:
        """Compute with torch from now on: on a CPU it takes a fifth less time, and a second and 200 MB once.

        States differ in their last bits.
        """
        compute, arrays, lora = self._computing
        if isinstance(compute, _Numpy):
            new = _Torch(self.device)
            pairs = {name: (new.array(down), new.array(up)) for name, (down, up) in lora.items()}
            self._computing = new, {name: new.array(value) for name, value in arrays.items()}, pairs

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """The sizes (outputs, inputs) of its linear layers, by name."""
        names = [name.removesuffix(".bias") for name in self.weights if name.endswith(".bias")]
        sizes = {name: self.weights[f"{name}.weight"].shape for name in names if not name.startswith("pooler")}
        return {name: (size[0], size[1]) for name, size in sizes.items() if len(size) == 2}

    def parameter(self, name: str) -> Floats:
        """A weight or bias of a layer, with its low-rank change."""
        compute, arrays, lora = self._computing
        linear = name.removesuffix(".weight")
        if linear in lora and linear != name:
            down, up = lora[linear]
            return compute.numpy(arrays[name] + up @ down)
        return compute.numpy(arrays[name])

    def with_lora(self, weights: Mapping[str, Floats]) -> "Bert":
        """The same encoder with `up` @ `down` added to each linear layer's weight (LoRA, Hu et al. 2021), and its `bias`
        replaced. They share their weights: adding the products takes a tenth longer, and half of the memory.
        """
        compute, arrays, _ = self._computing
        put, names = compute.array, self.linear_layers()
        biases = {f"{name}.bias": put(weights[f"{name}.bias"]) for name in names}
        lora = {name: (put(weights[f"{name}.down"]), put(weights[f"{name}.up"])) for name in names}
        made = copy(self)
        vars(made).update(_computing=(compute, arrays | biases, lora), layers=None)
        return made

    @np.errstate(over="ignore", invalid="ignore")  # the result is checked
    def states(
        self, rows: Sequence[Sequence[int]], type_starts: Sequence[int] | None = None, *, calls: int | None = None
    ) -> list[Floats]:
        """The last hidden states of texts from the ids of their tokens: [S, E] each.

        Args:
            rows: the ids of each text.
            type_starts: from which token on each text is of the second type.
            calls: how many calls share the threads that may be used; each thread computes a part of the tokens, and on how
                many there are, the last bits depend. None computes all on this one.
        """
        compute, arrays, _ = self._computing
        lengths = [len(row) for row in rows]
        texts = [slice(start, end) for start, end in pairwise([0, *accumulate(lengths)])]
        positions = np.concatenate([np.arange(length) for length in lengths])

        def embedded(kind: str, ids: NDArray[np.int64]) -> Any:
            table = arrays[f"embeddings.{kind}_embeddings.weight"]
            if ids.max(initial=0) >= len(table):
                position = "texts as long as the model's settings say"
                what = position if kind == "position" else "its own tokenizer's tokens"
                raise ModelError(f"The encoder cannot read {what}.", hint="Get the model again.")
            return table[compute.array(ids)]

        x = embedded("word", np.concatenate(rows).astype(np.int64))
        biases: list[Any] = [None] * len(rows)
        if self.config["model_type"] == "bert":
            first = np.repeat(lengths if type_starts is None else type_starts, lengths)
            x = x + embedded("token_type", (positions >= first).astype(np.int64))
        else:
            positions += self.config["pad_token_id"] + 1
            table = self.weights["encoder.relative_attention_bias.weight"]
            biases = [compute.array(_position_bias(table, length)) for length in lengths]
        x = self._normalised("embeddings.LayerNorm", x + embedded("position", positions))
        if self.layers is not None:
            states = [
                self.layers(compute.numpy(x[text]), None if bias is None else compute.numpy(bias))
                for text, bias in zip(texts, biases, strict=True)
            ]
        else:
            threads = 1 if calls is None or self.device != "cpu" else max(1, usable_threads() // calls)
            x = self._after_layers(x, list(zip(texts, biases, strict=True)), threads)
            states = [compute.numpy(x[text]) for text in texts]
        if not all(np.isfinite(some).all() for some in states):
            message = "The weights of the encoder, or of its reader, are not all numbers."
            raise ModelError(message, hint="Get the model again.")
        return states

    def _after_layers(self, x: Any, texts: Sequence[tuple[slice, Any]], threads: int) -> Any:
        """The tokens of texts, each with its attention's bias, after all layers, from their embeddings: [S, E]."""
        join = self._computing[0].concatenate
        *projections, out, norm = ATTENTION[self.config["model_type"]]
        threads = max(1, min(threads, len(x) // _LEAST_TOKENS))
        parts = [slice(len(x) * at // threads, len(x) * (at + 1) // threads) for at in range(threads)]

        @np.errstate(over="ignore", invalid="ignore")  # which another thread does not take over
        def projected(layer: str, of_part: Any) -> list[Any]:
            return [self._linear(f"{layer}.attention.{name}", of_part) for name in projections]

        @np.errstate(over="ignore", invalid="ignore")
        def output(layer: str, key: Any, value: Any, query: Any, of_part: Any, part: slice) -> Any:
            read = []
            for text, bias in texts:
                start, end = max(text.start, part.start), min(text.stop, part.stop)
                if start < end:
                    asking = query[start - part.start : end - part.start]
                    near = None if bias is None else bias[:, start - text.start : end - text.start]
                    read.append(self._attention(asking, key[text], value[text], near))
            y = self._normalised(
                f"{layer}.attention.{norm}", self._linear(f"{layer}.attention.{out}", join(read)) + of_part
            )
            inner = self._computing[0].gelu(self._linear(f"{layer}.intermediate.dense", y))
            return self._normalised(f"{layer}.output.LayerNorm", self._linear(f"{layer}.output.dense", inner) + y)

        states = [x[part] for part in parts]
        with self._pool(threads) as apply:
            for layer in (f"encoder.layer.{number}" for number in range(self._layers)):
                queries, keys, values = zip(*apply(partial(projected, layer), states), strict=True)
                states = list(apply(partial(output, layer, join(keys), join(values)), queries, states, parts))
        return join(states)

    def _linear(self, name: str, x: Any) -> Any:
        _, arrays, lora = self._computing
        y = x @ arrays[f"{name}.weight"].T
        if name in lora:
            down, up = lora[name]
            y += (x @ down.T) @ up.T
        y += arrays[f"{name}.bias"]
        return y

    def _normalised(self, name: str, x: Any) -> Any:
        compute, arrays, _ = self._computing
        return compute.normalise(x, arrays[f"{name}.weight"], arrays[f"{name}.bias"], self._epsilon)

    def _attention(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        def heads(x: Any) -> Any:
            """[S, E] -> [heads, S, E / heads]."""
            return x.reshape(x.shape[0], self._heads, -1).swapaxes(0, 1)

        read = self._computing[0].attention(heads(query), heads(key), heads(value), bias)
        return read.swapaxes(0, 1).reshape(len(query), self.width)

    def vectors(self, texts: Sequence[str], window: int) -> Floats:
        """Unit sentence vectors, the mean of the token states, of texts cut to `window` tokens: [B, E].

        On a CPU, each depends on its text alone.
        """
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        rows = [row if len(row) <= window else [*row[: window - 1], row[-1]] for row in ids]
        vectors = np.zeros((len(rows), self.width), np.float32)

        def compute(chosen: Sequence[int]) -> None:
            means = np.stack([states.mean(0) for states in self.states([rows[row] for row in chosen])])
            vectors[chosen] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)

        # On a CPU each text alone: the last bits of a vector depend on what it is computed with.
        total = 1 if self.device == "cpu" else _BATCH_TOKENS
        for _ in self.in_threads(compute, list(batches(list(map(len, rows)), total))):
            pass
        return vectors

    def chunker(self, window: int) -> Chunker:
        return Chunker(self.tokenizer, window - 2)

    def in_threads(self, work: Callable[[_Given], _Made], given: Sequence[_Given]) -> Generator[_Made, None, None]:
        """Apply `work` to each, in as many threads as may be used if it computes on the CPU; yields results in order."""
        if self.device != "cpu":
            yield from map(work, given)
            return
        with one_thread, self._pool(min(usable_threads(), len(given))) as apply:
            yield from apply(work, given)

    @contextmanager
    def _pool(self, threads: int) -> Iterator[Callable[..., Iterator[Any]]]:
        """`map` in so many threads."""
        if threads < 2:
            yield map
            return
        pool = ThreadPoolExecutor(threads, "text", initializer=self._computing[0].use_one_thread)
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)

    @classmethod
    def open(cls, name: str, *, device: str = "cpu") -> Self:
        """Open an encoder by hub id or path; its weights are read from the disk as they are used.

        Raises ModelError if it is missing, damaged or of another architecture.
        """
        try:
            return cls._opened(locate(name), device)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
            install = install_hint(name)
            hint = f"Install its package: {install}" if install else "Give a folder or hub id of a BERT or MPNet."
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"The encoder {name} could not be opened: {reason}", hint=hint) from error

    @classmethod
    def _opened(cls, source: str, device: str) -> Self:
        folder = local_folder(source)
        if folder is None:
            from huggingface_hub import snapshot_download

            folder = Path(snapshot_download(source, allow_patterns=list(_FILES)))
        if missing := [name for name in _FILES if not (folder / name).is_file()]:
            raise ValueError(f"{folder / missing[0]} is not a file")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["model_type"] not in ATTENTION or config["hidden_act"] != "gelu":
            raise ValueError("it is neither a BERT nor an MPNet")
        _require_numbers(config)
        version = version_of(folder / WEIGHTS)
        stored, weights = map_tensors(folder / WEIGHTS), {}
        for name, shape in _shapes(config):
            if name not in stored or stored[name].shape != shape:
                raise ValueError(f"its weights do not match its config: see {name}")
            weights[name] = stored[name].astype(np.float32, copy=False)
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # it raises nothing narrower
            raise ValueError(f"tokenizer.json: {error}") from error
        _require_ordinary(tokenizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        encoder = cls(config, weights, tokenizer, device=device)
        encoder._opened_as = version
        return encoder


def _require_numbers(config: Mapping[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError if the settings of an encoder could not be those of one."""
    names = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
    of_mpnet = ("relative_attention_num_buckets", "pad_token_id")
    names += ["max_position_embeddings", *(("type_vocab_size",) if config["model_type"] == "bert" else of_mpnet)]
    if not all(type(config[name]) is int and config[name] > 0 for name in names):
        raise ValueError("its config has sizes that are not numbers above 0")
    if config["hidden_size"] % config["num_attention_heads"] or config.get("relative_attention_num_buckets", 4) < 4:
        raise ValueError("its config has sizes that do not fit each other")
    if not 0 < float(config["layer_norm_eps"]) < 1:
        raise ValueError("its layer_norm_eps is not between 0 and 1")


def _require_ordinary(tokenizer: Tokenizer) -> None:
    """Raises ValueError if a tokenizer may make a text much longer, as by replacing letters, or take very long."""
    parts = [part.__getstate__().decode() for part in (tokenizer.normalizer, tokenizer.pre_tokenizer) if part]
    steps = {kind for part in parts for kind in re.findall(r'"type":"(\w+)"', part)}
    longest = getattr(tokenizer.model, "max_input_chars_per_word", 0)
    if longest > _LONGEST_WORD or not steps <= _TOKENIZING:
        raise ValueError("tokenizer.json: it does more than divide texts into words and their parts")


class _Numpy:
    """What an encoder computes, on arrays of numpy."""

    concatenate: Any = staticmethod(np.concatenate)
    array: Any = staticmethod(lambda value: value)
    numpy: Any = staticmethod(lambda value: value)
    use_one_thread: Any = staticmethod(lambda: None)  # see `_OneThread`

    def normalise(self, x: Floats, weight: Floats, bias: Floats, epsilon: float) -> Floats:
        """LayerNorm, in place."""
        x -= x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + epsilon)
        x *= weight
        x += bias
        return x

    def attention(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        """Softmax attention of one text, [heads, S, D]; `bias`, [heads, S, S], is added to its scores."""
        scores = query * query.shape[-1] ** -0.5 @ key.swapaxes(1, 2)
        if bias is not None:
            scores += bias
        scores -= np.amax(scores, axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        read = scores @ value
        read /= scores.sum(axis=-1, keepdims=True)
        return read

    def gelu(self, x: Floats) -> Floats:
        """GELU, x * (1 + erf(x / sqrt(2))) / 2, in place; erf to 1.5e-7 (Abramowitz and Stegun, 1964, 7.1.26).

        For x of either sign, this is max(x, 0) - |x| / 2 * (1 - erf(|x| / sqrt(2))).
        """
        flat = x.reshape(-1)
        buffers = np.empty((3, min(_BLOCK, len(flat))), np.float32)
        for start in range(0, len(flat), _BLOCK):
            part = flat[start : start + _BLOCK]
            size, t, less = buffers[:, : len(part)]
            np.abs(part, out=size)
            np.multiply(size, np.float32(0.3275911 * math.sqrt(0.5)), out=t)
            t += np.float32(1)
            np.reciprocal(t, out=t)
            np.multiply(size, size, out=less)
            less *= np.float32(-0.5)
            np.exp(less, out=less)
            less *= size
            np.multiply(t, np.float32(1.061405429 / 2), out=size)
            for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
                size += np.float32(coefficient / 2)
                size *= t
            less *= size
            np.maximum(part, 0, out=part)
            part -= less
        return x


class _Torch:
    """The same on torch's arrays."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch, self._device, self.concatenate = torch, device, torch.cat
        self.gelu = torch.nn.functional.gelu

    def array(self, value: NDArray[Any]) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # it is only read
            forward = value.copy() if any(stride < 0 for stride in value.strides) else value
            return self._torch.from_numpy(forward).to(self._device)

    def numpy(self, value: Any) -> NDArray[Any]:
        made: NDArray[Any] = value.cpu().numpy()
        return made

    def use_one_thread(self) -> None:
        self._torch.set_num_threads(1)

    def normalise(self, x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
        return self._torch.nn.functional.layer_norm(x, weight.shape, weight, bias, epsilon)

    def attention(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        attention = self._torch.nn.functional.scaled_dot_product_attention
        return attention(query[None], key[None], value[None], attn_mask=bias)[0]


def _position_bias(table: Floats, length: int) -> Floats:
    """T5's relative position bias, [heads, S, S], from a table [buckets, heads]."""
    distances = np.arange(1 - length, length)
    half = len(table) // 2
    near = half // 2
    size = np.abs(distances)
    logs = np.log(np.maximum(size, 1).astype(np.float32) / near) / np.float32(math.log(_MAX_DISTANCE / near))
    far = near + (logs * (half - near)).astype(np.int64)
    buckets = np.where(size < near, size, np.minimum(far, half - 1)) + half * (distances > 0)
    # Row i is about the distances from -i on.
    return np.lib.stride_tricks.sliding_window_view(table[buckets].T, length, axis=1)[:, ::-1]


def batches(lengths: Sequence[int], total: int) -> Iterator[list[int]]:
    """Batches of indices of similarly long texts, shortest first, of at most so many tokens or one text."""
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[index] > total:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch


_controller: Final = cache(ThreadpoolController)


class _OneThread:
    """Keeps numpy's matrix products on one thread: many small ones took 20 times as long on two that waited for others.

    All that compute at the same time share the limit, since it is the process's.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limit = Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._limit is not None:
                self._limit.restore_original_limits()


one_thread: Final = _OneThread()


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The float32 and float16 tensors of a safetensors file, read from the disk as they are used.

    Raises OSError, SafetensorError or ValueError if it is missing or damaged.
    """
    if not path.is_file():  # a pipe would block, and a device never end
        raise FileNotFoundError(f"{path} is not a file")
    with safe_open(path, "np"):  # checks that sizes and positions fit
        pass
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start, arrays = 8 + int.from_bytes(data[:8], "little"), {}
    try:
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__" and entry["dtype"] in _DTYPES:
                shape, dtype = entry["shape"], _DTYPES[entry["dtype"]]
                flat = np.frombuffer(data, dtype, math.prod(shape), start + entry["data_offsets"][0])
                arrays[name] = flat.reshape(shape)
    except (KeyError, TypeError) as error:
        raise ValueError("its header is damaged") from error
    return arrays


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A model's parameter names and shapes, in order of use."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    is_bert = config["model_type"] == "bert"
    rows = {"word": config["vocab_size"], "position": config["max_position_embeddings"]}
    rows |= {"token_type": config["type_vocab_size"]} if is_bert else {}
    for kind, count in rows.items():
        yield f"embeddings.{kind}_embeddings.weight", (count, width)
    if not is_bert:
        yield (
            "encoder.relative_attention_bias.weight",
            (config["relative_attention_num_buckets"], config["num_attention_heads"]),
        )
    *projections, norm = (f"attention.{name}" for name in ATTENTION[config["model_type"]])
    layers: dict[str, tuple[int, ...]] = dict.fromkeys(projections, (width, width)) | {norm: (width,)}
    layers |= {"intermediate.dense": (inner, width), "output.dense": (width, inner), "output.LayerNorm": (width,)}
    outer = {"embeddings.LayerNorm": (width,), "pooler.dense": (width, width)}
    numbers = range(config["num_hidden_layers"])
    named = ((f"encoder.layer.{number}.{name}", size) for number in numbers for name, size in layers.items())
    for name, size in chain(outer.items(), named):
        yield f"{name}.weight", size
        yield f"{name}.bias", size[:1]
