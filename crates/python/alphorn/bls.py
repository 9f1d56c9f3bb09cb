"""Secret keys, signatures and proofs of possession of BLS12-381, as in Ethereum's consensus layer.

A secret key is 32 bytes, a public key 48, a signature 96. Messages have any length.
"""

from __future__ import annotations

from . import _native
from ._bytes import Bytes, Many, many, one

__all__ = [
    "aggregate",
    "interop_secret_key",
    "key_gen",
    "pop_prove",
    "pop_verify",
    "public_key",
    "sign",
    "verify",
]


def key_gen(material: Bytes) -> bytes:
    """The secret key of secret keying material, of at least 32 bytes."""
    return _native.bls_key_gen(one(material))


def interop_secret_key(validator: int) -> bytes:
    """The secret key of a validator that everyone can compute: for tests and devnets."""
    return _native.bls_interop_secret_key(validator)


def public_key(secret_key: Bytes) -> bytes:
    """The public key of a secret key."""
    return _native.bls_public_key(one(secret_key))


def sign(secret_key: Bytes, message: Bytes) -> bytes:
    """The signature of a message."""
    return _native.bls_sign(one(secret_key), one(message))


def verify(public_key: Bytes, message: Bytes, signature: Bytes) -> bool:
    """Whether a signature holds; false for what does not decode."""
    return _native.bls_verify(one(public_key), one(message), one(signature))


def pop_prove(secret_key: Bytes) -> bytes:
    """The proof of possession of a secret key."""
    return _native.bls_pop_prove(one(secret_key))


def pop_verify(public_key: Bytes, proof: Bytes) -> bool:
    """Whether a proof of possession holds."""
    return _native.bls_pop_verify(one(public_key), one(proof))


def aggregate(signatures: Many) -> bytes:
    """The sum of signatures, shape (n, 96) with n at least 1."""
    return _native.bls_aggregate(many(signatures, 96, "signatures"))
