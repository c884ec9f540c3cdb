"""What identifies a codebook."""

import hashlib
import struct

import numpy as np

from mbc_engine.bank import fingerprint


def test_fingerprint_is_of_the_values() -> None:
    books = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2)
    other = np.array([1, 2, 3, 5], np.float32).reshape(1, 1, 2, 2)
    assert fingerprint(books) == hashlib.sha256(b"books" + struct.pack("<4f", 1, 2, 3, 4)).hexdigest()[:16]
    assert fingerprint(books.astype(np.float64)) == fingerprint(books) != fingerprint(other)
