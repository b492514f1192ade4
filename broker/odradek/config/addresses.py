"""Addresses of brokers and clients, and `max.connections.per.ip.overrides`: numbers by address."""

from __future__ import annotations

import re

from odradek.config.keys import BadValue

__all__ = ["EVERYWHERE", "address_of", "bracketed", "check_told_host", "parse_overrides", "reachable", "url_of"]

LOCAL = ("127.0.0.1", "::1")
NOWHERE = ("0.0.0.0", "::")
EVERYWHERE = ("", *NOWHERE)
"""Host names of a listener that is bound to all addresses of the machine."""
HOST_MAX = 255
"""Characters of a host name (RFC 1035, section 3.1: a name has 255 octets at most); no resolver takes more."""
NAME = r"(?a)[\w.-]+"


def check_told_host(host: str) -> None:
    """Check a host that clients will receive: a name, or an address without a port and without brackets.

    Raises ValueError with one sentence for a host to which they could not connect.
    """
    if len(host) > HOST_MAX:
        raise ValueError(f"No client can connect to a host of {len(host)} characters: a name has {HOST_MAX} at most.")
    if host not in NOWHERE and (re.fullmatch(NAME, host) or _is_ipv6(host)):
        return
    raise ValueError(f"No client can connect to {host!r}: a host is a name or an address, without a port.")


def _is_ipv6(host: str) -> bool:
    from ipaddress import IPv6Address  # here and below: few starts look at an address, and the import takes 1 ms

    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def url_of(host: str, port: int) -> str:
    """The address of an HTTP server on this machine, for a client on the same machine."""
    return f"http://{bracketed(reachable(host))}:{port}"


def reachable(host: str) -> str:
    """The host to which a client on this machine connects, for a listener bound to this host."""
    return "localhost" if host in EVERYWHERE else host


def bracketed(host: str) -> str:
    """A host as written in front of a port: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host


def address_of(host: str) -> str:
    """The one canonical spelling of an address; a text that is not an address is unchanged."""
    from ipaddress import ip_address

    try:
        return str(ip_address(host))
    except ValueError:
        return host


def parse_overrides(text: str) -> dict[str, int]:
    """Numbers by address from `ADDRESS:NUMBER,…`, with canonical addresses; `localhost` is allowed too.

    Other names are not looked up, so they match no client. Raises `BadValue`.
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
    from ipaddress import ip_address

    try:
        return (str(ip_address(host)),)
    except ValueError:
        return LOCAL if host == "localhost" else ()
