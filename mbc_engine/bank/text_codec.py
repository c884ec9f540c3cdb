"""A chunk's exact text as bytes: zstd with a dictionary of English prose, which a short text cannot learn by itself.

A chunk is its start, its codec (1 byte), a checksum (4 bytes, little-endian), and the payload. The checksum is the
CRC-32 of the start, the codec, the payload and the text in UTF-8: of the payload, because zstd ignores some bits; of the
text, because another dictionary would give another one.
"""

import threading
import zlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.text import Chunk

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressionParameters

_PLAIN: Final = 0
_ZSTD: Final = 1
_LEVEL: Final = 19
_CRC_BYTES: Final = 4
# Every zstd frame begins with these, so that a text need not.
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# What a payload may unfold to; a longer text is kept as it is.
MAX_UNFOLDED: Final = 16 << 20
_MAX_START_BYTES: Final = 9


def encode_chunk(chunk: Chunk) -> bytes:
    """A chunk as bytes, the same ones each time with one version of zstd; half a surrogate is kept as well."""
    if not 0 <= chunk.start < 1 << 63:
        raise ValueError(f"a chunk cannot start at {chunk.start}")
    start, rest = bytearray(), chunk.start  # seven bits to a byte, lowest first
    while rest > 0x7F:
        start.append(rest & 0x7F | 0x80)
        rest >>= 7
    start.append(rest)
    return bytes(start) + _encode(chunk.text, bytes(start))


def decode_chunk(data: bytes) -> Chunk:
    """The inverse of `encode_chunk`. Raises ValueError if the bytes are damaged."""
    if type(data) is not bytes:
        raise ValueError("a text is not of bytes")
    start = 0
    for place, byte in enumerate(data[:_MAX_START_BYTES]):
        start |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return Chunk(_decode(data[place + 1 :], data[: place + 1]), start)
    raise ValueError("a text does not say where it starts")


def row_checksum(number: int, data: bytes) -> int:
    """CRC-32 of a row of the table `texts` with its id, so that no row is taken for another one."""
    return zlib.crc32(data, zlib.crc32(number.to_bytes(8, "little", signed=True)))


def decode_row(number: int, crc: int, data: bytes) -> Chunk:
    """The chunk in a row of the table `texts`. Raises ValueError if the row is damaged."""
    chunk = decode_chunk(data)
    if crc != row_checksum(number, data):
        raise ValueError("its checksum does not match")
    return chunk


def _encode(text: str, before: bytes) -> bytes:
    plain = text.encode("utf-8", "surrogatepass")
    codec, payload = _PLAIN, plain
    if 0 < len(plain) <= MAX_UNFOLDED:
        packed = _compressor().compress(plain)[len(_MAGIC) :]
        if len(packed) < len(plain):
            codec, payload = _ZSTD, packed
    return bytes([codec]) + _checksum(before, codec, payload, plain) + payload


def _decode(data: bytes, before: bytes) -> str:
    codec, crc, payload = data[:1], data[1 : 1 + _CRC_BYTES], data[1 + _CRC_BYTES :]
    if codec not in (bytes([_PLAIN]), bytes([_ZSTD])):
        raise ValueError("a text has an unknown codec")
    plain = _unfolded(payload) if codec[0] == _ZSTD else payload
    if crc != _checksum(before, codec[0], payload, plain):
        raise ValueError("a text's checksum does not match")
    return plain.decode("utf-8", "surrogatepass")


def _checksum(before: bytes, codec: int, payload: bytes, plain: bytes) -> bytes:
    crc = zlib.crc32(payload, zlib.crc32(before + bytes([codec])))
    return zlib.crc32(plain, crc).to_bytes(_CRC_BYTES, "little")


def _unfolded(payload: bytes) -> bytes:
    from zstandard import ZstdError, frame_content_size

    try:
        size = frame_content_size(_MAGIC + payload)
        if not 0 <= size <= MAX_UNFOLDED:
            raise ValueError("a text does not say how long it is, or is too long")
        plain: bytes = _decompressor().decompress(_MAGIC + payload, allow_extra_data=False)
    except ZstdError as error:
        raise ValueError(str(error)) from error
    return plain


# A compressor and a decompressor serve one thread at a time; the dictionary serves them all.
_own: Final = threading.local()
_preparing: Final = threading.Lock()


def _compressor() -> Any:
    from zstandard import ZstdCompressor

    if not hasattr(_own, "compressor"):
        with _preparing:
            _own.compressor = ZstdCompressor(dict_data=_dictionary(), compression_params=_parameters())
    return _own.compressor


def _decompressor() -> Any:
    from zstandard import ZstdDecompressor

    if not hasattr(_own, "decompressor"):
        with _preparing:
            _own.decompressor = ZstdDecompressor(dict_data=_dictionary())
    return _own.decompressor


@cache
def _dictionary() -> "ZstdCompressionDict":
    from zstandard import ZstdCompressionDict

    return ZstdCompressionDict(files(__package__).joinpath("text.dict").read_bytes())


@cache
def _parameters() -> "ZstdCompressionParameters":
    from zstandard import ZstdCompressionParameters

    sizes = {"source_size": 1024, "dict_size": len(_dictionary())}  # the source is about a chunk
    writes = {"write_content_size": True, "write_checksum": False, "write_dict_id": False}
    parameters = ZstdCompressionParameters.from_level(_LEVEL, **sizes, **writes)
    _dictionary().precompute_compress(compression_params=parameters)  # a quarter of a second's work
    return parameters
