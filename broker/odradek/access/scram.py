"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as in Kafka's KIP-84: without channel binding.

A stolen credential does not let its thief log in. A broker checks a login with three HMACs; the client derives keys
from the password, which is slow on purpose.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from odradek.access.credential import ScramCredential, ScramMechanism

__all__ = [
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "ScramError",
    "ScramExchange",
    "credential_of",
    "salted_password",
]

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
_FIRST = re.compile(
    r"n,(?:a=([^,]*))?,(?:m=[^,]*,)?n=([^,]*),r=([\x21-\x2B\x2D-\x7E]+)((?:,[A-Za-z]+=[^,]+)*)", re.DOTALL
)
_FINAL = re.compile(r"(c=([^,]*),r=([\x21-\x2B\x2D-\x7E]+)(?:,[^,]*)*),p=([^,]*)", re.DOTALL)
_FINAL_BYTES_MAX = 4096


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password: takes milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential to store for a salted password."""
    algorithm = mechanism.algorithm
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", algorithm),
        iterations=iterations,
    )


class ScramError(Exception):
    """The login fails."""


class ScramExchange:
    """The server side of one login: `first`, then `final`. Both raise `ScramError`; its text contains no names."""

    def __init__(self, mechanism: ScramMechanism, nonce: str) -> None:
        self._mechanism = mechanism
        self._server_nonce = nonce
        self._nonce = ""
        self._bare = ""
        self._server_first = ""
        self._binding = b""

    def first(self, said: bytes) -> tuple[str, str, bool]:
        """From the first message: the user, the user to act for, and whether the user is a delegation token."""
        text = _text(said)
        match = _FIRST.fullmatch(text)
        if match is None:
            raise ScramError("the first message is malformed")
        authorize_as, user, client_nonce, extensions = match.groups(default="")
        self._binding = text[: text.index(",", 2) + 1].encode()
        self._bare = text[len(self._binding) :]
        self._nonce = client_nonce + self._server_nonce
        return _name(user), _name(authorize_as), "tokenauth=true" in extensions.lower().split(",")

    def challenge(self, credential: ScramCredential) -> bytes:
        """The server's answer to the first message."""
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def final(self, said: bytes, credential: ScramCredential) -> bytes:
        """The server's own proof, once the client has proved that it knows the password."""
        if len(said) > _FINAL_BYTES_MAX:
            raise ScramError("the final message is too long")
        match = _FINAL.fullmatch(_text(said))
        if match is None:
            raise ScramError("the final message is malformed")
        without, binding, nonce, proof = match.groups()
        if nonce != self._nonce or _base64(binding) != self._binding:
            raise ScramError("the final message does not belong to the first")
        algorithm = self._mechanism.algorithm
        auth_message = f"{self._bare},{self._server_first},{without}".encode()
        signature = hmac.digest(credential.stored_key, auth_message, algorithm)
        shown = _base64(proof)
        if len(shown) != len(signature):
            raise ScramError("the proof is none")
        client_key = bytes(a ^ b for a, b in zip(shown, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), credential.stored_key):
            raise ScramError("the proof is wrong")
        return b"v=" + b64encode(hmac.digest(credential.server_key, auth_message, algorithm))


def _text(said: bytes) -> str:
    try:
        return said.decode()
    except UnicodeDecodeError:
        raise ScramError("a message is not UTF-8") from None


def _name(text: str) -> str:
    """A name as it is written in a message, with `=` and `,` escaped."""
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        raise ScramError("a name is malformed")
    return text.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise ScramError("a message is not Base64") from None
