"""OAUTHBEARER with signed tokens (KIP-768): played against both brokers.

The keys are those of `JWKS`, the audience is `kafka`, the issuer `https://issuer.test`, and the user stands in `user`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from tests.security.logins import HUGE, NANOSECONDS_S, YEAR_S
from tests.security.wire import Raw, token

from odradek.wire.messages.list_groups_request import ListGroupsRequest

__all__ = ["CONFIG", "ISSUER", "JWKS", "SIGNED", "signed"]

ISSUER = "https://issuer.test"
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
RSA = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
STRANGER = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
JWKS = json.dumps({"keys": [EC.as_dict(private=False), RSA.as_dict(private=False)]})
GROUPS = ListGroupsRequest()
HOUR_S = 3600

CONFIG: Mapping[str, str] = {
    "sasl.oauthbearer.expected.audience": "kafka,other",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.sub.claim.name": "user",
}
"""What both brokers are configured with, beside the file of the keys."""


def signed(*, key: Any = EC, header: Mapping[str, Any] | None = None, **claims: Any) -> bytes:
    """What a client says with a token; claims that are None are left out."""
    now = int(time.time())
    told = {"user": "alice", "sub": "x", "iss": ISSUER, "aud": "kafka", "iat": now, "exp": now + HOUR_S, **claims}
    algorithm = "RS256" if key is RSA else "ES256"
    text = jwt.encode(
        {"alg": algorithm, "kid": key.kid, **(header or {})},
        {name: value for name, value in told.items() if value is not None},
        key,
    )
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


def let_in(said: Callable[[], bytes]) -> Callable[[Raw], None]:
    def play(raw: Raw) -> None:
        raw.handshake("OAUTHBEARER")
        answer = raw.authenticate(said())
        if answer is None:
            return
        if answer.error_code == 0 and not answer.auth_bytes:
            raw.ask(GROUPS, 0)
        elif answer.auth_bytes:
            raw.authenticate(b"\x01")
        raw.ends()

    return play


def now(seconds: int = 0) -> int:
    return int(time.time()) + seconds


def damaged(said: bytes) -> bytes:
    """With another user, and the signature of the first."""
    head, claims, signature = said.removesuffix(b"\x01\x01").rsplit(b".", 2)
    middle = len(claims) // 2
    changed = claims[:middle] + (b"A" if claims[middle : middle + 1] != b"A" else b"B") + claims[middle + 1 :]
    return b".".join((head, changed, signature)) + b"\x01\x01"


SIGNED: dict[str, Callable[[Raw], None]] = {
    "a_good_one": let_in(signed),
    "one_of_another_key": let_in(lambda: signed(key=RSA)),
    "one_of_two_audiences": let_in(lambda: signed(aud=["else", "other"])),
    "a_key_that_nobody_knows": let_in(lambda: signed(key=STRANGER)),
    "an_id_of_a_key_that_nobody_knows": let_in(lambda: signed(header={"kid": "who"})),
    "the_id_of_another_key": let_in(lambda: signed(header={"kid": "rsa"})),
    "changed_on_the_way": let_in(lambda: damaged(signed())),
    "unsigned": let_in(lambda: token(user="alice", iss=ISSUER, aud="kafka", iat=now(), exp=now(HOUR_S))),
    "expired": let_in(lambda: signed(iat=now(-7200), exp=now(-HOUR_S))),
    "expired_within_the_skew": let_in(lambda: signed(iat=now(-7200), exp=now(-10))),
    "not_yet": let_in(lambda: signed(nbf=now(HOUR_S))),
    "not_yet_within_the_skew": let_in(lambda: signed(nbf=now(10))),
    "issued_later": let_in(lambda: signed(iat=now(HOUR_S), exp=now(2 * HOUR_S))),
    "another_audience": let_in(lambda: signed(aud="else")),
    "no_audience": let_in(lambda: signed(aud=None)),
    "another_issuer": let_in(lambda: signed(iss="https://else.test")),
    "no_issuer": let_in(lambda: signed(iss=None)),
    "no_expiry": let_in(lambda: signed(exp=None)),
    "no_issue": let_in(lambda: signed(iat=None)),
    "no_subject": let_in(lambda: signed(sub=None)),
    "no_user": let_in(lambda: signed(user=None)),
    "an_empty_user": let_in(lambda: signed(user="  ")),
    "a_user_that_is_no_text": let_in(lambda: signed(user=7)),
    "an_end_beyond_doubles": let_in(lambda: signed(exp=HUGE)),
    "an_end_below_doubles": let_in(lambda: signed(exp=-HUGE)),
    "an_end_of_1500_digits": let_in(lambda: signed(exp=int("9" * 1500))),
    "a_large_double_as_end": let_in(lambda: signed(exp=1e300)),
    "an_end_that_overflows_in_ms": let_in(lambda: signed(exp=2**54)),
    "an_end_as_far_as_a_long_goes": let_in(lambda: signed(exp=2**63 - 1)),
    "an_end_beyond_longs": let_in(lambda: signed(exp=2**63)),
    "an_end_as_far_as_nanoseconds_go": let_in(lambda: signed(exp=now(NANOSECONDS_S - YEAR_S))),
    "an_end_beyond_nanoseconds": let_in(lambda: signed(exp=now(NANOSECONDS_S + 60))),
    "an_issue_that_overflows_in_ms": let_in(lambda: signed(iat=2**54)),
    "a_start_that_overflows_in_ms": let_in(lambda: signed(nbf=2**54)),
    "a_fraction_as_end": let_in(lambda: signed(exp=time.time() + HOUR_S)),
    "a_negative_end": let_in(lambda: signed(exp=-5)),
    "a_text_as_end": let_in(lambda: signed(exp=str(now(HOUR_S)))),
    "a_truth_as_end": let_in(lambda: signed(exp=True)),
    "an_issue_beyond_doubles": let_in(lambda: signed(iat=HUGE)),
    "an_issue_below_doubles": let_in(lambda: signed(iat=-HUGE)),
    "a_negative_issue": let_in(lambda: signed(iat=-5)),
    "a_start_beyond_doubles": let_in(lambda: signed(nbf=HUGE)),
    "a_start_below_doubles": let_in(lambda: signed(nbf=-HUGE)),
    "a_negative_start": let_in(lambda: signed(nbf=-5)),
    "a_text_as_start": let_in(lambda: signed(nbf="5")),
    "a_scope": let_in(lambda: signed(scope="a b")),
    "a_scope_that_is_none": let_in(lambda: signed(scope=7)),
}
"""Every story, by its name."""
