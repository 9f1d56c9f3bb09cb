"""One-time keys under a hash tree: a key signs only with a permit, which marks give out once for each slot.

Sets: `prod` (byte-compatible with the lean consensus specification), `compact` (smaller, faster proofs) and `test`
(of no security). Messages are 32 bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Union

import numpy as np

from . import _native
from ._bytes import Bytes, Many, context_or_default, many, one
from ._native import Permit

__all__ = ["Key", "Marks", "Permit", "public_key_bytes", "signature_bytes", "verify"]

Path = Union[str, "os.PathLike[str]"]


def public_key_bytes(set: str) -> int:
    """Bytes of a public key of a set."""
    return _native.xmss_sizes(set)[0]


def signature_bytes(set: str) -> int:
    """Bytes of a signature of a set."""
    return _native.xmss_sizes(set)[1]


class Key:
    """A secret key with the resident part of its tree."""

    def __init__(self, native: _native.Key) -> None:
        self._native = native

    @classmethod
    def generate(
        cls,
        seed: Bytes,
        slots: range,
        set: str = "compact",
        duties: bool = False,
        context: _native.Context | None = None,
    ) -> Key:
        """The key of a secret seed of 32 bytes; its time grows with the range.

        `slots` are one-time indices: slots, or with `duties` eight times the slot and the duty. One seed is one
        key, of one purpose and one range: never make one for votes and one for duties from the same seed, they
        would use one index twice.
        """
        active = _active(slots)
        native = _native.Key.generate(context_or_default(context), set, duties, one(seed), active)
        return cls(native)

    @classmethod
    def interop(
        cls,
        validator: int,
        slots: range,
        set: str = "compact",
        duties: bool = False,
        context: _native.Context | None = None,
    ) -> Key:
        """The key of a validator that everyone can compute: for tests and devnets."""
        active = _active(slots)
        return cls(_native.Key.interop(context_or_default(context), set, duties, validator, active))

    @classmethod
    def from_files(cls, secret: Bytes, tree: Bytes, context: _native.Context | None = None) -> Key:
        """The key of its two files' content.

        A tree file that was changed gives another public key: compare it with the one that is known.
        """
        return cls(_native.Key.from_files(context_or_default(context), one(secret), one(tree)))

    def secret_file(self) -> bytes:
        """The content of the secret file: anyone who reads it can sign."""
        return self._native.secret_file()

    def tree_file(self) -> bytes:
        """The content of the tree file, which is no secret."""
        return self._native.tree_file()

    @property
    def public_key(self) -> bytes:
        """The public key."""
        return self._native.public_key

    @property
    def set(self) -> str:
        """The name of its set."""
        return self._native.set

    @property
    def slots(self) -> range:
        """The slots in which it can sign."""
        return range(*self._native.slots)

    def sign(self, permit: Permit) -> bytes:
        """The one signature that a permit allows; the permit is used up whatever comes of it."""
        return self._native.sign(permit)


def _active(slots: range) -> tuple[int, int]:
    if slots.step != 1:
        raise ValueError(f"{slots} has a step")
    return slots.start, slots.stop


class Marks:
    """The marks of one key in a file, which no other process can have open; a context manager that closes it.

    A process that is forked can use none of its parent's: `reserve` is refused there.
    """

    def __init__(self, native: _native.Marks) -> None:
        self._native = native

    @classmethod
    def create(cls, path: Path, key: Key, floor: int = 0, state: Path | None = None) -> Marks:
        """Makes the file of a key that signs nothing below slot `floor`.

        A key that was restored from a backup needs a floor above every slot in which it ever signed. `state` is a
        folder of this user for a second mark, by which a copy of the first is found out.
        """
        return cls(_native.Marks.create(path, state, key._native, floor))

    @classmethod
    def open(cls, path: Path, key: Key, state: Path | None = None) -> Marks:
        """Opens the file of a key."""
        return cls(_native.Marks.open(path, state, key._native))

    def reserve(self, slot: int, message: Bytes, role: int = 0) -> Permit:
        """The permit to sign a message in a slot, once the mark is on the disk. Role 0 is a vote."""
        return self._native.reserve(slot, role, one(message))

    def slot_next(self, role: int = 0) -> int:
        """The least slot that is free in a role."""
        return self._native.slot_next(role)

    def close(self) -> None:
        """Closes the file; permits that it gave out go on."""
        self._native.close()

    def __enter__(self) -> Marks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def verify(
    keys: Many,
    indices: Sequence[int] | np.ndarray[Any, Any],
    messages: Many,
    signatures: Many,
    set: str = "compact",
    context: _native.Context | None = None,
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each of n signatures holds: shape (n,), bool.

    `keys`: (n, public_key_bytes). `indices`: (n,), the slots of votes. `messages`: (n, 32). `signatures`:
    (n, signature_bytes). One that does not decode does not hold.
    """
    at = [int(index) for index in indices]
    context = context_or_default(context)
    keys, bad_keys = _of_size(keys, public_key_bytes(set))
    signatures, bad_signatures = _of_size(signatures, signature_bytes(set))
    joined = many(keys, public_key_bytes(set), "keys"), many(signatures, signature_bytes(set), "signatures")
    native = _native.xmss_verify(context, set, joined[0], at, many(messages, 32, "messages"), joined[1])
    found = np.frombuffer(native, dtype=np.bool_).copy()
    found[bad_keys + bad_signatures] = False
    return found


def _of_size(given: Many, size: int) -> tuple[Many, list[int]]:
    """The same with zeros for what has another size, and where that is: it does not hold, and the others may."""
    if not isinstance(given, (list, tuple)):
        return given, []
    items = [one(item) for item in given]
    bad = [index for index, item in enumerate(items) if len(item) != size]
    return [bytes(size) if len(item) != size else item for item in items], bad
