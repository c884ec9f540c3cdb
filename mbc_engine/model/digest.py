"""A digest of weights: the same for the same values, wherever they were stored and in whatever order."""

import hashlib
from collections.abc import Mapping

from torch import Tensor


def state_digest(state: Mapping[str, Tensor], *details: str) -> str:
    """SHA-256 of named tensors as float32 and of further details, hexadecimal."""
    digest = hashlib.sha256(" ".join(details).encode())
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().contiguous().numpy().data)
    return digest.hexdigest()
