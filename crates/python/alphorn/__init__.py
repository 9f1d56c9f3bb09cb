"""BLS and XMSS votes of whole committees, proofs of them, coded broadcast.

Whatever is bytes may be given as `bytes`, `bytearray`, `memoryview` or a C-contiguous array of `uint8`; lists of
equal items as an array of shape (n, size), as a list of such items, or concatenated. Results of one item are
`bytes`, of many an array. What computes leaves the interpreter free for other threads, and objects may be shared
by threads.

`alphorn.bls`, `alphorn.xmss`, `alphorn.proofs` and `alphorn.broadcast` are the library; `alphorn.compare`,
`alphorn.explore` and `alphorn.sim` run the program `alphorn`.
"""

from . import bls, broadcast, proofs, sim, xmss
from ._bytes import pack
from ._native import Context, Error, __version__
from ._program import compare, explore
from .committees import VERDICTS, Collection, Committees, Registry

__all__ = [
    "VERDICTS",
    "Collection",
    "Committees",
    "Context",
    "Error",
    "Registry",
    "__version__",
    "bls",
    "broadcast",
    "compare",
    "explore",
    "pack",
    "proofs",
    "sim",
    "xmss",
]
