"""Coded broadcast: a payload in pieces that every relay can verify, and of which sufficiently many give it back."""

from __future__ import annotations

from . import _native
from ._bytes import Bytes, context_or_default, one

__all__ = ["Broadcast"]


class Broadcast:
    """One broadcast, at its source or at a node that receives and relays it."""

    def __init__(self, native: _native.Broadcast) -> None:
        self._native = native

    @classmethod
    def publish(
        cls,
        payload: Bytes,
        code: str = "reed-solomon",
        kind: int = 0,
        slot: int = 0,
        source: int = 0,
        index: int = 0,
        context: _native.Context | None = None,
    ) -> Broadcast:
        """Cuts a payload of at most 32 MiB, by `rlnc` or `reed-solomon`, and commits to it.

        The source signs `signing_root`.
        """
        subject = (kind, slot, source, index)
        context = context_or_default(context)
        return cls(_native.Broadcast.publish(context, code, subject, one(payload)))

    @classmethod
    def receive(
        cls, header: Bytes, payload_bytes_max: int, context: _native.Context | None = None
    ) -> Broadcast:
        """Begins to receive what a header announces.

        The caller verifies the source's signature over `signing_root` after this, and before the first `add`.
        """
        context = context_or_default(context)
        return cls(_native.Broadcast.receive(context, one(header), payload_bytes_max))

    @property
    def header(self) -> bytes:
        """100 bytes."""
        return self._native.header

    def signing_root(self, network: Bytes) -> bytes:
        """What the source signs, 32 bytes: SHA-256 of "alphorn/broadcast/v1" and a zero byte, the network's identifier
        (32 bytes) and the header."""
        return self._native.signing_root(one(network))

    @property
    def commitment_lists(self) -> int:
        """Lists of commitments, which travel with the header: one for each generation of `rlnc`, none for shards."""
        return self._native.commitment_lists

    def commitments(self, generation: int) -> bytes:
        """The commitments that the pieces of a generation are verified against."""
        return self._native.commitments(generation)

    def add_commitments(self, generation: int, commitments: Bytes) -> None:
        """Takes the commitments of a generation and checks them against the header."""
        self._native.add_commitments(generation, one(commitments))

    @property
    def selectors(self) -> int:
        """Different pieces to ask for: generations, or shards."""
        return self._native.selectors

    def piece(self, selector: int) -> bytes:
        """A piece to send: a fresh combination of a generation, or the shard with that number."""
        return self._native.piece(selector)

    def add(self, piece: Bytes) -> bool:
        """Verifies a piece and keeps it if it adds something; says whether it did."""
        return self._native.add(one(piece))

    @property
    def is_full(self) -> bool:
        """Whether the payload can be decoded."""
        return self._native.is_full

    def payload(self) -> bytes:
        """The payload, after all checks. From then on this node can send whatever the source can."""
        return self._native.payload()
