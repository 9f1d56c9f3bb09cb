"""Registries of BLS keys, committees of them, and collections: who signed, and the sum of their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._bytes import Bytes, Many, context_or_default, many, one

#: What a verdict says, by its number.
VERDICTS = (
    "valid",
    "no such committee, or the signers do not fit it",
    "the signature does not decode",
    "nobody signed, or the signers' keys cancel",
    "the signature does not hold",
)


class Registry:
    """The public keys of all validators, in the order of their indices.

    `keys`: shape (n, 48), `proofs` of possession: shape (n, 96). Every key is decoded, duplicates are refused, and
    every proof is verified.
    """

    def __init__(self, keys: Many, proofs: Many, context: _native.Context | None = None) -> None:
        self._native = _native.Registry(context_or_default(context), many(keys, 48, "keys"), many(proofs, 96, "proofs"))

    @classmethod
    def proven(cls, keys: Many, context: _native.Context | None = None) -> Registry:
        """Keys, shape (n, 48), whose proofs of possession were verified before.

        A key that was never proven lets its owner forge collections.
        """
        made = cls.__new__(cls)
        made._native = _native.Registry(context_or_default(context), many(keys, 48, "keys"), None)
        return made

    def __len__(self) -> int:
        return len(self._native)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the concatenated keys."""
        return self._native.digest


class Collection(NamedTuple):
    """Who of a committee signed what, and the sum of their signatures."""

    #: Number of the committee.
    committee: int
    #: Planes of bits, as `alphorn.pack` makes them of a list of signers.
    signers: Bytes
    #: What all of them signed.
    message: Bytes
    #: 96 bytes.
    signature: Bytes


class Committees:
    """The committees of an epoch, ready to be summed.

    `sizes`: shape (c,), how many members each has. `members`: shape (sum of sizes,), indices of the registry,
    committee after committee; the registry's keys in their order without.
    """

    def __init__(
        self,
        registry: Registry,
        sizes: Sequence[int] | np.ndarray[Any, Any],
        members: Sequence[int] | np.ndarray[Any, Any] | None = None,
    ) -> None:
        indices = None if members is None else [int(index) for index in members]
        self._native = _native.Committees(registry._native, indices, [int(size) for size in sizes])

    def __len__(self) -> int:
        return len(self._native)

    def size(self, committee: int) -> int | None:
        """Members of a committee; none if there is no such committee."""
        return self._native.size(committee)

    def sum(self, committee: int, signers: Bytes) -> bytes:
        """The sum of the signers' keys, under which the sum of their signatures holds: 48 bytes."""
        return self._native.sum(committee, one(signers))

    def verify(self, collections: Iterable[Collection]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Verifies n collections in one test: shape (n,), 0 for each that holds, else an index of `VERDICTS`.

        The verdicts are those of verifying each alone.
        """
        items = [
            (int(item.committee), one(item.signers), one(item.message), one(item.signature))
            for item in collections
        ]
        return np.frombuffer(self._native.verify(items), dtype=np.uint8).copy()
