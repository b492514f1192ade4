"""Principals, such as `User:alice`, and how a principal is made from the name in a certificate.

`ssl.principal.mapping.rules` are those of KIP-371: `DEFAULT`, or `RULE:pattern/replacement/[LU]`; the first rule that
matches the whole distinguished name wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

__all__ = [
    "ANONYMOUS",
    "SOMEBODY",
    "USER",
    "MappingRules",
    "Peer",
    "Principal",
    "RulesError",
    "distinguished_name",
    "parse_principal",
]

USER = "User"


class RulesError(ValueError):
    """Rules for principals that cannot be used; the text is one clear sentence."""


class Principal(Struct, frozen=True):
    """The identity for which a connection acts."""

    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""The principal of clients that have not logged in, on a listener that requires no login."""


class Peer(Struct, frozen=True):
    """The other end of a connection: its principal, and the listener over which it came."""

    listener: str = ""
    principal: Principal = ANONYMOUS
    by_token: bool = False
    """Whether the client logged in with a delegation token."""


SOMEBODY = Peer()
"""An anonymous client on the only listener."""


def parse_principal(text: str) -> Principal:
    """`TYPE:NAME`. Raises ValueError, whose text is one clear sentence, for anything else."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"A principal is TYPE:NAME, such as User:alice, not {text!r}.")
    return Principal(name, kind)


_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attribute types that RFC 2253, section 2.3, has a name for."""
_OBJECT_IDS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16)}
"""Attribute types that a name shows by number, with the DER tag of their text: an IA5String."""
_SPECIAL = r'([,+"\\<>;=])'

Attributes = Sequence[Sequence[tuple[str, str]]]
"""A name as `ssl.SSLSocket.getpeercert` returns it: sets of attributes, the most general first."""


def distinguished_name(subject: Attributes) -> str:
    """The name in the form of RFC 2253, as Java's `X500Principal.getName()`: most specific attribute first."""
    return ",".join("+".join(_attribute(name, value) for name, value in each) for each in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if name in _OBJECT_IDS:
        number, tag = _OBJECT_IDS[name]
        encoded = value.encode()
        return f"{number}=#{bytes((tag, len(encoded))).hex()}{encoded.hex()}"
    escaped = re.sub(_SPECIAL, r"\\\1", value)
    if escaped.startswith((" ", "#")):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(escaped) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{_KEYWORDS.get(name, name)}={escaped}"


_RULE = r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
_GROUP = r"\$(\d)"


class _Rule(Struct, frozen=True):
    pattern: re.Pattern[str] | None
    """The parsed rules; None stands for DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = re.sub(_GROUP, lambda group: match[int(group[1])] or "", self.replacement.replace("\\/", "/"))
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class MappingRules:
    """Parse `ssl.principal.mapping.rules`. Raises `RulesError` for a text that has no such form."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = re.compile(_RULE).match(text, position)
            if match is None or match.end() == position:
                raise RulesError(f"ssl.principal.mapping.rules cannot be read from {text[position:]!r} on.")
            position = match.end()
            self._rules.append(_Rule(None) if match[1] else self._rule(match[2], match[3], match[4]))

    def _rule(self, pattern: str, replacement: str, case: str) -> _Rule:
        try:
            compiled = re.compile(pattern.replace("\\/", "/"))
        except re.error as error:
            raise RulesError(
                f"ssl.principal.mapping.rules holds a pattern that is none: {pattern!r} ({error})."
            ) from None
        if any(int(group) > compiled.groups for group in re.findall(_GROUP, replacement)):
            raise RulesError(f"ssl.principal.mapping.rules replaces by a group that {pattern!r} does not have.")
        return _Rule(compiled, replacement, case)

    def principal(self, name: str) -> Principal | None:
        """The principal for the name of a certificate; None if no rule matches, so that the connection is refused."""
        for rule in self._rules or [_Rule(None)]:
            mapped = rule.apply(name)
            if mapped is not None:
                return Principal(mapped.strip())
        return None
