"""What codes depend on, and shares of vectors as shares of their codes. No torch."""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import Codes, CodeShape, count

CodeMap = NDArray[np.float32]


def spread(shares: NDArray[np.floating], codes: Codes, shape: CodeShape) -> CodeMap:
    """Shares of vectors [B, k, T] as shares of their codes [B, k, T, levels]: [B, levels, positions, num_codes].

    They sum to 1 over each level. No question's shares may all be zero.
    """
    whole = (shares / shares.sum((1, 2), keepdims=True))[..., None]
    return np.stack([count(row, shape, share) for row, share in zip(codes, whole, strict=True)]).astype(np.float32)


def digest(arrays: Iterable[tuple[str, NDArray[np.float32]]], *details: str) -> str:
    """SHA-256 of named arrays and of further details, hexadecimal."""
    hashed = hashlib.sha256(" ".join(details).encode())
    for name, array in arrays:
        hashed.update(name.encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
