"""What is given as bytes, and the context that is taken if none is given."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ._native import Context

#: One thing in bytes: `bytes`, `bytearray`, `memoryview`, or an array of uint8.
Bytes = Union[bytes, bytearray, memoryview, "np.ndarray[Any, np.dtype[np.uint8]]"]
#: Many of one size: an array of shape (n, size), a list of them, or concatenated.
Many = Union[Bytes, Sequence[Bytes]]


def one(given: Bytes) -> bytes:
    """One thing as bytes.

    Raises TypeError for an array of anything but uint8: its bytes would depend on the byte order.
    """
    if isinstance(given, bytes):
        return given
    view = memoryview(given)  # type: ignore[arg-type]
    if view.format != "B":
        raise TypeError(f"bytes or an array of uint8, not of format {view.format!r}")
    return view.tobytes()


def many(given: Many) -> bytes:
    """Many things, one after the other."""
    if isinstance(given, (list, tuple)):
        return b"".join(one(item) for item in given)
    return one(given)  # type: ignore[arg-type]


def pack(multiplicities: Any) -> bytes:
    """The signers of a committee as planes of bits.

    `multiplicities`: shape (n,), bool, or integers from 0 to 15 that say how often each position signed. Returns as
    many planes of (n + 7) // 8 bytes as the largest needs, the lowest first; at least one.
    """
    array = np.asarray(multiplicities)
    if array.ndim != 1:
        raise ValueError(f"shape (n,), not {array.shape}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) <= 15:
        raise ValueError(f"multiplicities from {array.min()} to {array.max()}, must be 0 to 15")
    array = array.astype(np.uint8)
    planes = max(1, int(array.max(initial=0)).bit_length())
    return b"".join(np.packbits(array >> j & 1, bitorder="little").tobytes() for j in range(planes))


@functools.lru_cache(maxsize=1)
def default_context() -> Context:
    """One context for the process, with as many threads as cores."""
    return Context(0)


def context_or_default(context: Context | None) -> Context:
    """The context that was given, or the process's."""
    return default_context() if context is None else context
