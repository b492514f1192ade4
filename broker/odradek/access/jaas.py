"""`sasl.jaas.config`: a login module and its options: the users of PLAIN at a broker, the login of a client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.access.mechanisms import LoginsRefused

if TYPE_CHECKING:
    from odradek.config.table import Config

__all__ = ["JaasError", "configured_users", "login_options", "parse_users", "plain_users"]

_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""")
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
USER = "user_"


class JaasError(ValueError):
    """A text that is not a JAAS configuration. The message does not quote it, because it may contain passwords."""


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


def configured_users(config: Config, listener: str = "") -> Mapping[str, str]:
    """The users with a password in the configuration, for PLAIN, and for SCRAM credentials at a first start."""
    settings = config.security(listener, "PLAIN")
    try:
        users = dict(parse_users(settings.odradek_sasl_users or ""))
        if listener and settings.sasl_jaas_config is not None and "PlainLoginModule" in settings.sasl_jaas_config:
            users |= plain_users(settings.sasl_jaas_config)
    except JaasError as error:
        raise LoginsRefused(str(error)) from None
    return users
