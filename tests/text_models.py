"""A text model for tests: deflate that knows some texts beforehand, in place of a language model."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class StandIn:
    """Cannot encode texts with an `é` or invalid Unicode, as a language model may; records the sizes of its batches."""

    known: str
    fingerprint: str = "5eed" * 4
    decoded: list[int] = field(default_factory=list)
    encoded: list[int] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> list[bytes | None]:
        self.encoded.append(len(texts))
        return [self._encode(text) for text in texts]

    def decode(self, payloads: Sequence[bytes]) -> list[str]:
        self.decoded.append(len(payloads))
        return [self._decode(payload) for payload in payloads]

    def open(self, fingerprint: str) -> "StandIn":
        assert fingerprint in ("", self.fingerprint)
        return self

    def _encode(self, text: str) -> bytes | None:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return None
        packing = zlib.compressobj(9, wbits=-15, zdict=self.known.encode()[-32_000:])
        return None if "é" in text else packing.compress(data) + packing.flush()

    def _decode(self, payload: bytes) -> str:
        unpacking = zlib.decompressobj(wbits=-15, zdict=self.known.encode()[-32_000:])
        try:
            return unpacking.decompress(payload).decode()
        except zlib.error as error:
            raise ValueError(str(error)) from error
