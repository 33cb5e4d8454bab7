"""Certificates and requests for them."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from palmette.runtime.transports.keys.certificates import node_request, requested_key


def test_a_request_without_a_usable_key_is_nobodys() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    written = node_request("phone", key).public_bytes(Encoding.DER)
    off_the_curve = x509.load_der_x509_csr(written.replace(point, bytes([4, *[255] * 64])))
    assert requested_key(off_the_curve, "phone") is None
