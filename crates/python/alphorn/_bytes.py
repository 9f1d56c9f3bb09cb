"""What is given as bytes, and the context that is taken if none is given."""

from __future__ import annotations

import functools
import os
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


def many(given: Many, size: int, what: str) -> bytes:
    """Many things of `size` bytes each, one after the other.

    Raises ValueError for one of another length: together they might have the right one.
    """
    if isinstance(given, (list, tuple)):
        items = [one(item) for item in given]
        for index, item in enumerate(items):
            if len(item) != size:
                raise ValueError(f"length of {what}[{index}] = {len(item)} bytes, must be {size}")
        return b"".join(items)
    shape = getattr(given, "shape", ())
    if len(shape) > 1 and shape[-1] != size:
        raise ValueError(f"{what} of shape {shape}, must be (n, {size})")
    return one(given)  # type: ignore[arg-type]


def pack(multiplicities: Any) -> bytes:
    """The signers of a committee as planes of bits.

    `multiplicities`: shape (n,), bool, or integers from 0 to 15 that say how often each position signed. Returns as
    many planes of (n + 7) // 8 bytes as the largest needs, the lowest first; at least one.

    Raises TypeError for numbers of any other type: fractions would be cut off.
    """
    array = np.asarray(multiplicities)
    if array.ndim != 1:
        raise ValueError(f"shape (n,), not {array.shape}")
    if array.size and array.dtype.kind not in "biu":
        raise TypeError(f"multiplicities of type {array.dtype}, must be bool or integers")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) <= 15:
        raise ValueError(f"multiplicities from {array.min()} to {array.max()}, must be 0 to 15")
    array = array.astype(np.uint8)
    planes = max(1, int(array.max(initial=0)).bit_length())
    return b"".join(np.packbits(array >> j & 1, bitorder="little").tobytes() for j in range(planes))


@functools.lru_cache(maxsize=1)
def default_context() -> Context:
    """One context for the process, with as many threads as cores."""
    return Context(0)


if hasattr(os, "register_at_fork"):
    # A forked process has none of its threads.
    os.register_at_fork(after_in_child=default_context.cache_clear)


def context_or_default(context: Context | None) -> Context:
    """The context that was given, or the process's."""
    return default_context() if context is None else context
