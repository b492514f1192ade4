"""Addresses of clients, and `max.connections.per.ip.overrides`: numbers by address."""

from __future__ import annotations

from ipaddress import ip_address

from odradek.config.keys import BadValue

__all__ = ["address_of", "parse_overrides"]

LOCAL = ("127.0.0.1", "::1")


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
