"""What clients may do before they are let in, and while: played against the real broker and against Odradek.

The users are alice (`alice-secret`) and bob (`bob-secret`); `connections.max.reauth.ms` is an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.security.wire import Raw, client_final, client_first, plain, token

from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest

__all__ = ["LOGINS"]

VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
NOBODY_ASKS = MetadataRequest(topics=[])
GROUPS = ListGroupsRequest()


def plain_is_let_in(raw: Raw) -> None:
    raw.ask(VERSIONS, 3)
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.ask(GROUPS, 0)


def plain_with_the_wrong_password(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "wrong"))
    raw.ends()


def plain_of_nobody(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("nobody", "alice-secret"), version=0)
    raw.ends()


def plain_without_a_password(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", ""))
    raw.ends()


def plain_without_a_name(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("", "alice-secret"))
    raw.ends()


def plain_for_somebody_else(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret", "bob"))
    raw.ends()


def plain_for_oneself(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret", "alice"))
    raw.ask(GROUPS, 0)


def plain_that_is_none(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(b"alice")
    raw.ends()


def plain_with_too_many_parts(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(b"\0a\0b\0c")
    raw.ends()


def bare_tokens(raw: Raw) -> None:
    raw.handshake("PLAIN", version=0)
    raw.frame(plain("alice", "alice-secret"))
    raw.ask(GROUPS, 0)


def bare_tokens_with_the_wrong_password(raw: Raw) -> None:
    raw.handshake("PLAIN", version=0)
    raw.frame(plain("alice", "wrong"))


def bare_tokens_of_scram(raw: Raw) -> None:
    raw.handshake("SCRAM-SHA-256", version=0)
    first = raw.frame(client_first("alice"))
    if first is not None:
        raw.frame(client_final("alice", "alice-secret", first, "sha256"))
    raw.ask(GROUPS, 0)


def scram_256_is_let_in(raw: Raw) -> None:
    raw.scram("SCRAM-SHA-256", "alice", "alice-secret")
    raw.ask(GROUPS, 0)


def scram_512_is_let_in(raw: Raw) -> None:
    raw.scram("SCRAM-SHA-512", "alice", "alice-secret")
    raw.ask(GROUPS, 0)


def scram_with_the_wrong_password(raw: Raw) -> None:
    raw.scram("SCRAM-SHA-256", "alice", "wrong")
    raw.ends()


def scram_of_nobody(raw: Raw) -> None:
    raw.scram("SCRAM-SHA-512", "nobody", "alice-secret")
    raw.ends()


def scram_that_is_none(raw: Raw) -> None:
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(b"hello")
    raw.ends()


def scram_for_somebody_else(raw: Raw) -> None:
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(b"n,a=bob,n=alice,r=x")
    raw.ends()


def scram_with_another_nonce(raw: Raw) -> None:
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(client_first("alice"))
    raw.authenticate(b"c=biws,r=another,p=" + b"A" * 43 + b"=")
    raw.ends()


def a_token_is_let_in(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    now = int(time.time())
    raw.authenticate(token(sub="alice", iat=now, exp=now + 7200))
    raw.ask(GROUPS, 0)


def a_token_that_has_expired(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    now = int(time.time())
    raw.authenticate(token(sub="alice", iat=now - 7200, exp=now - 3600))
    raw.authenticate(b"\x01")
    raw.ends()


def a_token_without_a_name(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    raw.authenticate(token(exp=int(time.time()) + 7200))
    raw.authenticate(b"\x01")
    raw.ends()


def a_token_that_is_none(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    raw.authenticate(b"n,,\x01auth=Bearer hello\x01\x01")
    raw.authenticate(b"\x01")
    raw.ends()


def a_token_of_noise(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    raw.authenticate(b"hello")
    raw.ends()


def a_token_for_somebody_else(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    said = token(sub="alice", exp=int(time.time()) + 7200)
    raw.authenticate(said.replace(b"n,,", b"n,a=bob,"))
    raw.ends()


def another_mechanism(raw: Raw) -> None:
    raw.handshake("GSSAPI")
    raw.ends()


def a_mechanism_that_is_none(raw: Raw) -> None:
    raw.handshake("")
    raw.ends()


def asking_first(raw: Raw) -> None:
    raw.ask(NOBODY_ASKS, 9)


def asking_first_in_an_unknown_version(raw: Raw) -> None:
    raw.ask(NOBODY_ASKS, 9, api_version=99)


def asking_after_the_versions(raw: Raw) -> None:
    raw.ask(VERSIONS, 3)
    raw.ask(GROUPS, 0)


def asking_after_the_handshake(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.ask(GROUPS, 0)
    raw.ends()


def asking_within_scram(raw: Raw) -> None:
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(client_first("alice"))
    raw.ask(NOBODY_ASKS, 9)
    raw.ends()


def tokens_without_a_handshake(raw: Raw) -> None:
    raw.authenticate(plain("alice", "alice-secret"))


def versions_twice(raw: Raw) -> None:
    raw.ask(VERSIONS, 3)
    raw.ask(VERSIONS, 3)


def an_unknown_version_of_versions(raw: Raw) -> None:
    raw.ask(VERSIONS, 3, api_version=99)
    raw.ask(VERSIONS, 3)
    raw.handshake("PLAIN")


def a_handshake_in_an_unknown_version(raw: Raw) -> None:
    raw.ask(SaslAuthenticateRequest(), 0, api_version=9)


def handshakes_twice(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.handshake("PLAIN")
    raw.ends()


def an_unknown_version_of_authenticate(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 2, api_version=9)
    raw.ends()


def authenticating_again_at_once(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.ask(GROUPS, 0)


def authenticating_again(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.ask(GROUPS, 0)


def authenticating_again_as_somebody_else(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("PLAIN")
    raw.authenticate(plain("bob", "bob-secret"))
    raw.ends()


def authenticating_again_by_another_mechanism(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(client_first("alice"))
    raw.ends()


def authenticating_again_by_a_mechanism_that_is_not_served(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("GSSAPI")
    raw.ends()


def authenticating_again_by_no_mechanism(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("", version=0)
    raw.ends()


def authenticating_again_by_another_mechanism_without_a_word(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("SCRAM-SHA-256")
    raw.ends()


def authenticating_again_with_the_wrong_password(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "wrong"))
    raw.ends()


def asking_while_authenticating_again(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.wait(1.2)
    raw.handshake("PLAIN")
    raw.ask(GROUPS, 0)
    raw.ends()


def a_session_that_has_ended(raw: Raw) -> None:
    raw.handshake("OAUTHBEARER")
    now = int(time.time())
    raw.authenticate(token(sub="alice", iat=now, exp=now + 2))
    raw.wait(3.5)
    raw.ask(GROUPS, 0)


def a_token_that_is_too_long(raw: Raw) -> None:
    raw.handshake("PLAIN")
    raw.send((600_000).to_bytes(4))
    raw.ends()


def _with_a_token(claims: Callable[[int], dict[str, object]]) -> Callable[[Raw], None]:
    """A login with these claims, which are made of the time (s)."""

    def play(raw: Raw) -> None:
        raw.handshake("OAUTHBEARER")
        answer = raw.authenticate(token(sub="alice", **claims(int(time.time()))))
        if answer is not None and answer.auth_bytes:
            raw.authenticate(b"\x01")
        else:
            raw.ask(GROUPS, 0)

    return play


HUGE = 10**309
"""More than a double holds."""
YEAR_S = 365 * 86_400
NANOSECONDS_S = 2**63 // 10**9
"""How many seconds of nanoseconds a long holds: 292 years."""
_TIMES: dict[str, Callable[[int], dict[str, object]]] = {
    "an_end_beyond_doubles": lambda now: {"exp": HUGE},
    "an_end_below_doubles": lambda now: {"exp": -HUGE},
    "an_end_of_1500_digits": lambda now: {"exp": int("9" * 1500)},
    "a_large_double_as_end": lambda now: {"exp": 1e300},
    "an_end_as_far_as_nanoseconds_go": lambda now: {"exp": now + NANOSECONDS_S - YEAR_S},
    "an_end_beyond_nanoseconds": lambda now: {"exp": now + NANOSECONDS_S + 60},
    "an_end_in_ms": lambda now: {"exp": (now + 7200) * 1000},
    "an_end_that_overflows_in_ms": lambda now: {"exp": 2**54},
    "an_end_as_far_as_a_long_goes": lambda now: {"exp": 2**63 - 1},
    "an_end_beyond_longs": lambda now: {"exp": 2**63},
    "a_fraction_as_end": lambda now: {"exp": now + 7200.5},
    "a_text_as_end": lambda now: {"exp": str(now + 7200)},
    "a_truth_as_end": lambda now: {"exp": True},
    "a_list_as_end": lambda now: {"exp": [now + 7200]},
    "no_end": lambda now: {"exp": None},
    "an_issue_beyond_doubles": lambda now: {"exp": now + 7200, "iat": HUGE},
    "an_issue_below_doubles": lambda now: {"exp": now + 7200, "iat": -HUGE},
    "a_negative_issue": lambda now: {"exp": now + 7200, "iat": -5},
    "a_text_as_issue": lambda now: {"exp": now + 7200, "iat": str(now)},
    "no_issue": lambda now: {"exp": now + 7200, "iat": None},
    "a_start_beyond_doubles": lambda now: {"exp": now + 7200, "nbf": HUGE},
}

LOGINS: dict[str, Callable[[Raw], None]] = {
    name: play
    for name, play in globals().items()
    if callable(play) and getattr(play, "__module__", "") == __name__ and not name.startswith("_")
} | {f"a_token_with_{name}": _with_a_token(claims) for name, claims in _TIMES.items()}
"""Every story, by its name."""
