"""Addresses of brokers and clients, and `max.connections.per.ip.overrides`: numbers by address."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

from odradek.config.keys import BadValue

__all__ = ["EVERYWHERE", "address_of", "bracketed", "check_told_host", "parse_overrides", "reachable", "url_of"]

LOCAL = ("127.0.0.1", "::1")
NOWHERE = ("0.0.0.0", "::")
EVERYWHERE = ("", *NOWHERE)
"""What a listener on all addresses of the machine has for a host."""
HOST_MAX = 255
"""Characters of a host name (RFC 1035, section 3.1: a name has 255 octets at most); no resolver takes more."""
NAME = re.compile(r"[\w.-]+", re.ASCII)


def check_told_host(host: str) -> None:
    """See that clients can be told this host: a name, or an address without a port and without brackets.

    Raises ValueError, one sentence, for what they could not connect to.
    """
    if len(host) > HOST_MAX:
        raise ValueError(f"No client can connect to a host of {len(host)} characters: a name has {HOST_MAX} at most.")
    if host not in NOWHERE and (NAME.fullmatch(host) or _is_ipv6(host)):
        return
    raise ValueError(f"No client can connect to {host!r}: a host is a name or an address, without a port.")


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def url_of(host: str, port: int) -> str:
    """Where a client on this machine finds what listens on this host over HTTP."""
    return f"http://{bracketed(reachable(host))}:{port}"


def reachable(host: str) -> str:
    """What a client on this machine connects to where a listener is bound to this host."""
    return "localhost" if host in EVERYWHERE else host


def bracketed(host: str) -> str:
    """A host as it stands before a port: an address of IPv6 has brackets."""
    return f"[{host}]" if ":" in host else host


def address_of(host: str) -> str:
    """An address as it is written always; what is none stays as it is."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def parse_overrides(text: str) -> dict[str, int]:
    """`ADDRESS:NUMBER,…` as numbers by address, written as addresses always are; `localhost` is one, too.

    Other names are nobody's: they are not looked up. Raises `BadValue`.
    """
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = entry.rpartition(":")
        if not colon:
            raise BadValue(f"max.connections.per.ip.overrides is ADDRESS:NUMBER,…, and {entry} is not")
        try:
            most = int(number)
        except ValueError:
            raise BadValue(f'For input string: "{number.strip()}"') from None
        found |= dict.fromkeys(_addresses(host.strip().strip("[]")), most)
    return found


def _addresses(host: str) -> tuple[str, ...]:
    try:
        return (str(ip_address(host)),)
    except ValueError:
        return LOCAL if host == "localhost" else ()
