"""Signed OAUTHBEARER tokens (KIP-768), checked with the keys of a JSON Web Key Set (RFC 7517, RFC 7519).

joserfc checks signatures, with the package cryptography; this module compares the claims with the configuration, by the
clock of the broker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from odradek.access.claims import json_object, whole_ms
from odradek.config.security import SecurityConfig

__all__ = ["KeysError", "SignedTokens"]

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Algorithms with a private key, which only the issuer has. `none` is not a signature."""


class KeysError(ValueError):
    """Keys that cannot be used; the text is one clear sentence."""


class SignedTokens:
    """The tokens that one listener accepts. Raises `KeysError`."""

    def __init__(self, settings: SecurityConfig, keys: str) -> None:
        try:
            read = json.loads(keys)
            self._keys = KeySet.import_key_set(read)
        except (ValueError, KeyError, TypeError, JoseError) as error:
            raise KeysError(f"sasl.oauthbearer.jwks.endpoint.url names no JSON Web Key Set: {error}") from None
        self._settings = settings

    def valid(self, token: str, now_ms: int) -> tuple[str, int] | None:
        """The user of a token, and until when it is valid (ms); None if it cannot be trusted."""
        registry = jws.JWSRegistry(algorithms=ALGORITHMS)
        try:
            signed = jws.deserialize_compact(token, self._keys, registry=registry)
        except (ValueError, KeyError, TypeError, RecursionError, JoseError):
            return None
        claims = json_object(signed.payload, once=True)
        return None if claims is None else self._accepted(claims, now_ms)

    def _accepted(self, claims: Mapping[str, object], now_ms: int) -> tuple[str, int] | None:
        settings = self._settings
        name = claims.get(settings.sasl_oauthbearer_sub_claim_name)
        expires_ms, issued_ms = whole_ms(claims.get("exp")), whole_ms(claims.get("iat"))
        if not isinstance(name, str) or not name.strip() or expires_ms is None or issued_ms is None or issued_ms < 0:
            return None
        if not self._is_now(claims, expires_ms, issued_ms, now_ms) or not self._is_for_us(claims):
            return None
        return name.strip(), expires_ms

    def _is_now(self, claims: Mapping[str, object], expires_ms: int, issued_ms: int, now_ms: int) -> bool:
        skew_ms = self._settings.sasl_oauthbearer_clock_skew_seconds * 1000
        begins_ms = whole_ms(claims.get("nbf", 0))
        return (
            begins_ms is not None
            and begins_ms - skew_ms <= now_ms < expires_ms + skew_ms
            and issued_ms <= expires_ms
            and begins_ms < expires_ms
        )

    def _is_for_us(self, claims: Mapping[str, object]) -> bool:
        """Whether audience and issuer are the expected ones. If none is expected, a token may have any audience."""
        settings = self._settings
        told = claims.get("aud", [])
        audience = [told] if isinstance(told, str) else told
        expected = settings.sasl_oauthbearer_expected_audience
        if not isinstance(audience, list):
            return False
        if expected:
            if not set(expected) & {each for each in audience if isinstance(each, str)}:
                return False
        elif audience and not settings.sasl_oauthbearer_allow_unverified_audience:
            return False
        issuer = settings.sasl_oauthbearer_expected_issuer
        if issuer is not None:
            return bool(claims.get("iss") == issuer)
        return "iss" not in claims or settings.sasl_oauthbearer_allow_unverified_issuer
