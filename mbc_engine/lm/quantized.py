"""The layers of a BERT or MPNet in 8 bits, on onnxruntime, in 40% of the time that float32 takes.

Only for processors that sum products of 8-bit integers in one instruction, as most of x86 since 2020 do. Each row of
weights is rounded in blocks with a scale each, and what they are multiplied with is rounded as it comes. The rounded
layers are made once, in seconds, and kept in the user's cache, in the order in which this processor reads them.
"""

import hashlib
import math
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import ATTENTION, Bert, Floats, Layers
from mbc_engine.lm.packaged import Version, cache_folder, unpack_once
from mbc_engine.machine import has_integer_products, usable_threads

_FORMAT: Final = 2  # of the files that are kept
# What a graph depends on, beside weights.
_SETTINGS: Final = ("model_type", "num_hidden_layers", "num_attention_heads", "layer_norm_eps")
_MADE_OF: Final = "MADE_OF"  # a file beside them, with the paths of the weights
_OLDEST: Final = (1, 23)  # of onnxruntime
_SMALLEST_BLOCK: Final = 16  # weights that share a scale
_LARGEST_BLOCK: Final = 256
_ROUNDED_INPUTS: Final = 4  # the operator's `accuracy_level` for products of integers


def kept_layers(encoder: Bert, changes: Version | None = None) -> Layers | None:
    """The layers of an encoder, perhaps with low-rank changes of a file, in 8 bits: from tokens, [S, E], and what is added
    to attention's scores, [heads, S, S] or None, to states, [S, E].

    They are made again if a file of weights has changed. None where they would be no faster or cannot be kept.
    """
    sizes = encoder.width, encoder.config["intermediate_size"]
    version = encoder.version
    if encoder.device != "cpu" or version is None or math.gcd(*sizes) % _SMALLEST_BLOCK or not has_integer_products():
        return None
    settings = [encoder.config[name] for name in _SETTINGS]
    sources = [version[0], *([changes[0]] if changes else [])]
    folder = cache_folder(_digest(*sources))
    file = folder / f"{_digest(_FORMAT, version, changes, settings)}.onnx"
    with suppress(ImportError):
        with suppress(OSError, ValueError):
            return _opened(file)
        with suppress(OSError, ValueError, ModelError):
            file.unlink(missing_ok=True)  # damaged
            _keep(encoder, file, sources)
            return _opened(file)
    return None


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _opened(path: Path) -> Layers:
    """Raises ImportError if onnxruntime is missing or too old, OSError if the file is, ValueError if it is damaged or of
    another processor.
    """
    session = _session(path)

    def states(x: Floats, bias: Floats | None) -> Floats:
        given = {"x": x[None]} if bias is None else {"x": x[None], "bias": np.ascontiguousarray(bias[None])}
        try:
            computed: Floats = session.run(None, given)[0][0]
        except Exception as error:
            raise ModelError(f"onnxruntime failed: {error}", hint="Set MBC_PRECISION=float32.") from error
        return computed

    return states


def _session(path: Path, kept: Path | None = None) -> Any:
    """Open a graph, and perhaps keep it in a file, with its weights as this processor reads them, beside it.

    These are mapped when that file is opened, in a quarter of the time, and compared. Raises as `_opened`.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read at the import; else it would tell Microsoft what it does
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < _OLDEST:
        raise ImportError("onnxruntime is too old")
    if not path.is_file():
        raise FileNotFoundError(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_threads()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # nothing is left to optimise
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
    options.log_severity_level = 4
    entries = {"session.intra_op.allow_spinning": "0"}  # others may need the core
    if kept:
        options.optimized_model_filepath = str(kept)
        entries |= {
            "session.optimized_model_external_initializers_file_name": f"{kept.stem}.weights",
            "session.save_external_prepacked_constant_initializers": "1",
        }
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has a class for each cause
        raise ValueError(f"{path} cannot be opened") from error


def _keep(encoder: Bert, file: Path, sources: Sequence[str]) -> None:
    """Keep the rounded layers of an encoder in a file, in whose folder those made of earlier weights may be.

    Others whose `sources`, files of weights, are gone are deleted.
    """
    import onnx

    def fill(partial: Path) -> None:
        made = partial / "made.onnx"
        onnx.save(_Graph(encoder).model(), made)
        _session(made, partial / file.name)
        made.unlink()
        (partial / _MADE_OF).write_bytes(b"\0".join(map(os.fsencode, sources)))

    unpack_once(file.parent, file.is_file, fill, "The encoder's layers")
    for known in cache_folder("").glob(f"*/{_MADE_OF}"):  # of an environment that was deleted
        with suppress(OSError):
            if not all(map(os.path.exists, known.read_bytes().split(b"\0"))):
                shutil.rmtree(known.parent)


class _Graph:
    """An encoder's layers as a graph of ONNX's and onnxruntime's operators."""

    def __init__(self, encoder: Bert) -> None:
        self._encoder = encoder
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:
        from onnx import TensorProto, helper

        width, heads = self._encoder.width, self._encoder.config["num_attention_heads"]

        def described(name: str, *shape: int | str) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        has_bias = self._encoder.config["model_type"] == "mpnet"
        result = self._states(heads, "bias" if has_bias else "")
        given = [described("x", 1, "S", width), *([described("bias", 1, heads, "S", "S")] if has_bias else [])]
        graph = helper.make_graph(
            self._nodes, "layers", given, [described(result, 1, "S", width)], initializer=self._constants
        )
        operators = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=operators, ir_version=9)

    def _states(self, heads: int, bias: str) -> str:
        *projections, out, norm = ATTENTION[self._encoder.config["model_type"]]
        x = "x"
        for layer in (f"encoder.layer.{number}" for number in range(self._encoder.config["num_hidden_layers"])):
            projected = [self._linear(f"{layer}.attention.{name}", x) for name in projections]
            read = self._add("MultiHeadAttention", *projected, "", "", bias, num_heads=heads)
            y = self._normalised(f"{layer}.attention.{norm}", self._linear(f"{layer}.attention.{out}", read), x)
            inner = self._add("Gelu", self._linear(f"{layer}.intermediate.dense", y))
            x = self._normalised(f"{layer}.output.LayerNorm", self._linear(f"{layer}.output.dense", inner), y)
        return x

    @np.errstate(invalid="ignore", over="ignore")  # constants are checked
    def _linear(self, name: str, x: str) -> str:
        weight = self._encoder.parameter(f"{name}.weight")
        outputs, inputs = weight.shape
        block = math.gcd(inputs, _LARGEST_BLOCK)
        blocks = weight.reshape(outputs, inputs // block, block)
        scales = np.maximum(np.abs(blocks).max(2, keepdims=True) / np.float32(127), np.float32(1e-30))
        rounded = (np.rint(blocks / scales) + 128).astype(np.uint8)
        constants = self._constant(f"{name}.weight", rounded), self._constant(f"{name}.scales", scales.reshape(-1))
        sizes = {"K": inputs, "N": outputs, "bits": 8, "block_size": block}
        y = self._add("MatMulNBits", x, *constants, **sizes, accuracy_level=_ROUNDED_INPUTS)
        return self._add("Add", y, self._constant(f"{name}.bias", self._encoder.parameter(f"{name}.bias")), domain="")

    def _normalised(self, name: str, x: str, y: str) -> str:
        """LayerNorm of a sum."""
        parts = (f"{name}.{part}" for part in ("weight", "bias"))
        constants = [self._constant(part, self._encoder.parameter(part)) for part in parts]
        epsilon = self._encoder.config["layer_norm_eps"]
        return self._add("SkipLayerNormalization", x, y, *constants, epsilon=epsilon)

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        from onnx import numpy_helper

        if not np.isfinite(value).all():  # of which onnxruntime might make numbers
            raise ValueError(f"{name} is not all numbers")
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _add(self, operator: str, *given: str, domain: str = "com.microsoft", **settings: Any) -> str:
        from onnx import helper

        result = f"{operator}{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, given, [result], domain=domain, **settings))
        return result
