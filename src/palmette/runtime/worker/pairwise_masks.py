"""Masks that pairs of instances share and nobody else can compute, so that a sum is all that is learnt from them.

    A    weights + mask(A, B) + mask(A, C) ──▶┐
    B    weights − mask(A, B) + mask(B, C) ──▶┼──▶ the sum of the weights of A, B and C
    C    weights − mask(A, C) − mask(B, C) ──▶┘

As in Bonawitz et al. 2017, but without shares of secrets for those that drop out: a run that loses a node goes back to
its checkpoint, all nodes make new keys, and no round is repeated without a node (``control/adapt``). Each node makes a
key pair (X25519) when it is set up. From what two nodes agree on by them comes a key for each pair of instances (HKDF
with SHA-256), and from that a stream of bytes (ChaCha20) for each exchange and layer, which no other sum ever uses.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from palmette.errors import RunError

Words = np.ndarray[Any, np.dtype[np.uint64]]
"""Numbers modulo 2^64."""
_KEY_BYTES = 32
_NONCE = struct.Struct("<QII")  # where the stream begins, and what it is for


class Party(NamedTuple):
    """An instance that takes part in a sum: its number in the plan, and its node."""

    number: int
    node: str


class PairwiseMasks:
    """What a node shares with each other node that masks its weights."""

    def __init__(self) -> None:
        self._own = X25519PrivateKey.generate()
        self._shared: dict[str, bytes] = {}

    @property
    def public_key(self) -> bytes:
        """What others have to know."""
        return self._own.public_key().public_bytes_raw()

    def agree(self, keys: Mapping[str, bytes]) -> None:
        """Agree with the nodes that have these public keys.

        Raises:
            RunError: one of them is none.
        """
        for node, key in keys.items():
            try:
                self._shared[node] = self._own.exchange(X25519PublicKey.from_public_bytes(key))
            except ValueError:
                raise RunError(f"what node {node} sent is no public key; expected one of X25519") from None

    def stream(self, own: Party, other: Party, exchange: int, layer: int) -> MaskStream:
        """The mask of a layer between an instance of this node and another one, in the exchange with this number.

        The first of the two in the plan adds it, the other one subtracts it.
        """
        pair = sorted((own.number, other.number))
        derived = HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"palmette mask %d %d" % (pair[0], pair[1]))
        key = derived.derive(self._shared[other.node])
        return MaskStream(key, exchange, layer, adds=own.number == pair[0])


class MaskStream:
    """The numbers of a mask, one after the other."""

    def __init__(self, key: bytes, exchange: int, layer: int, *, adds: bool) -> None:
        self._stream = Cipher(algorithms.ChaCha20(key, _NONCE.pack(0, exchange, layer)), None).encryptor()
        self._adds = adds

    def masked(self, values: Words) -> Words:
        """Values with the next numbers of the mask."""
        mask: Words = np.frombuffer(self._stream.update(bytes(values.nbytes)), dtype="<u8")
        return values + mask if self._adds else values - mask
