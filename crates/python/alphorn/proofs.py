"""Proofs that many XMSS keys of a committee signed one message in one slot, and proofs merged to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import numpy as np

from . import _native
from ._bytes import Bytes, Many, context_or_default, many, one
from .xmss import public_key_bytes, signature_bytes

#: Hears the name of each step, from any thread, and ends the computation by returning False.
Progress = Callable[[str], Optional[bool]]

__all__ = ["Members", "Progress"]


class Members:
    """The keys of a committee, shape (n, public_key_bytes), in the order of their positions.

    Proofs of the preset `fast` can be merged, those of `small` are smaller. `number` tells the committees of an
    epoch apart: a proof for one is none for another.
    """

    def __init__(
        self,
        keys: Many,
        set: str = "compact",
        preset: str = "fast",
        number: int = 0,
        context: _native.Context | None = None,
    ) -> None:
        context = context_or_default(context)
        self._native = _native.Members(context, set, preset, many(keys, public_key_bytes(set), "keys"), number)
        self._signature_bytes = signature_bytes(set)

    def __len__(self) -> int:
        return len(self._native)

    @property
    def signatures_max(self) -> int:
        """Signatures that one proof takes at most."""
        return self._native.signatures_max

    @property
    def mergeable_max(self) -> int:
        """Signatures at most of a proof that can be merged."""
        return self._native.mergeable_max

    def prove(
        self,
        slot: int,
        message: Bytes,
        positions: Sequence[int] | np.ndarray[Any, Any],
        signatures: Many,
        progress: Progress | None = None,
    ) -> bytes:
        """The proof that members signed: `positions` (n,) ascend, `signatures` (n, signature_bytes) are theirs.

        An exception of `progress` ends the computation and is raised; `Error` with the code `stopped` if it
        returned False.
        """
        at = [int(position) for position in positions]
        given = many(signatures, self._signature_bytes, "signatures")
        return self._native.prove(slot, one(message), at, given, progress)

    def merge(
        self,
        slot: int,
        message: Bytes,
        parts: Iterable[tuple[Bytes, Bytes]],
        progress: Progress | None = None,
    ) -> bytes:
        """One proof of all signers of several: pairs of signers, as `alphorn.pack` makes them, and proof.

        The first merge of a process takes some seconds more.
        """
        pairs = [(one(signers), one(proof)) for signers, proof in parts]
        return self._native.merge(slot, one(message), pairs, progress)

    def verify(self, slot: int, message: Bytes, signers: Bytes, proof: Bytes) -> bool:
        """Whether a proof, merged or not, shows that exactly the signers signed the message in the slot.

        Raises `Error` for signers or a message that do not fit.
        """
        try:
            self._native.verify(slot, one(message), one(signers), one(proof))
        except _native.Error as error:
            if error.code in ("invalid", "decode"):
                return False
            raise
        return True
