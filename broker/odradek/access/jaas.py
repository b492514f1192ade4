"""`sasl.jaas.config`: a login module and its options; brokers read the users of PLAIN from it, clients who they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["JaasError", "login_options", "parse_users", "plain_users"]

_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""")
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
USER = "user_"


class JaasError(ValueError):
    """A text that is none; the sentence does not hold it, because it may hold passwords."""


def plain_users(text: str) -> Mapping[str, str]:
    """Passwords by user: the options `user_NAME="PASSWORD"` of the login module. Raises `JaasError`."""
    options = login_options(text)
    return {name.removeprefix(USER): value for name, value in options.items() if name.startswith(USER)}


def login_options(text: str) -> Mapping[str, str]:
    """All options of the login module, by name. Raises `JaasError`."""
    head = _HEAD.match(text)
    if head is None:
        raise JaasError('sasl.jaas.config is MODULE required OPTION="VALUE" …; and what is given is not.')
    options: dict[str, str] = {}
    position = head.end()
    while match := _OPTION.match(text, position):
        position = match.end()
        value = match[4] if match[4] is not None else re.sub(r"\\(.)", r"\1", match[2] or match[3] or "")
        options[match[1]] = value
    if text[position:].strip() not in (";", ""):
        raise JaasError(f"sasl.jaas.config cannot be read from character {position} on.")
    return options


def parse_users(text: str) -> Mapping[str, str]:
    """`NAME:PASSWORD,NAME:PASSWORD`. Raises `JaasError`."""
    users: dict[str, str] = {}
    for number, entry in enumerate(part for part in text.split(",") if part.strip()):
        name, colon, password = entry.strip().partition(":")
        if not (name and colon and password):
            raise JaasError(f"Users are NAME:PASSWORD,…, and the one at place {number + 1} is not.")
        users[name] = password
    return users
