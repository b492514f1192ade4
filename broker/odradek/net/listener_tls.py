"""The certificates of one broker's listeners, which may change while it runs (KIP-226, "SSL keystore").

New connections use the current ones; open connections keep theirs.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.cli.extras import need
from odradek.config.keys import BadValue
from odradek.config.security import LISTENER_PREFIX, RECONFIGURABLE, SecurityConfig
from odradek.config.table import ConfigSource
from odradek.net.tls import Identity, Telling, TlsError, load_identity, make_context, pem_of_trusted, trust, use

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.config.table import Config

__all__ = ["ListenerTls", "settings_of"]

_REFUSED = "org.apache.kafka.common.config.ConfigException"
_HANDSHAKE = "javax.net.ssl.SSLHandshakeException"
_UNTRUSTED = (
    f"{_HANDSHAKE}: PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: "
    "unable to find valid certification path to requested target"
)
_FLIGHTS = 4
"""The most rounds of a trial handshake, which takes two or three."""


class _Renewable(ssl.SSLContext):
    """The context of a server, which hands each new connection to the current context.

    A new certificate gets a new context: sessions of the old one are not resumed.
    """

    latest: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = self.latest.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(made, Telling):
            made.outgoing = outgoing
        return made


class _InUse(Struct, frozen=True):
    """The settings and context of one listener."""

    settings: SecurityConfig
    identity: Identity
    trusted: str | None
    context: ssl.SSLContext
    stamps: tuple[tuple[int, int], ...]
    """Modification time and length of the files."""


class ListenerTls:
    """The listeners with TLS of one broker. Raises `TlsError` for certificates that cannot be used."""

    def __init__(self, names: Sequence[str], config: Config, log: Logger) -> None:
        self.contexts: dict[str, ssl.SSLContext] = {}
        """The contexts for the servers of the listeners."""
        self._log = log
        self._in_use: dict[str, _InUse] = {}
        inside = config.security().inter_broker_listener_name
        self._inside = None if inside is None else inside.upper()
        for name in names:
            self._take(name, self._load(name, settings_of(name, config)))

    def complaint(self, config: Config) -> str | None:
        """Kafka's error for a configuration with certificates that a listener cannot switch to; None if all can."""
        for name, present in self._in_use.items():
            try:
                wanted = settings_of(name, config)
                if wanted != present.settings:
                    self._check(name, present, self._load(name, wanted))
            except TlsError as error:
                return error.to_clients
            except BadValue:
                return _unknown_type(name, config, present.settings)
        return None

    def adopt(self, config: Config) -> None:
        """Switch to the current configuration and to changed files; certificates that cannot be used are logged.

        The client that changed the configuration has already been answered, so the old certificates stay in use.
        """
        for name, present in self._in_use.items():
            try:
                wanted = settings_of(name, config)
                if wanted != present.settings or _stamps(wanted) != present.stamps:
                    candidate = self._load(name, wanted)
                    self._check(name, present, candidate)
                    self._take(name, candidate)
            except (TlsError, BadValue) as error:
                self._log.warning("certificates_not_taken", listener=name, reason=str(error))

    def reload(self, config: Config) -> None:
        """Read everything again, without comparing certificates. Raises `TlsError`, and then nothing has changed."""
        for name, candidate in [(name, self._load(name, settings_of(name, config))) for name in self._in_use]:
            self._take(name, candidate)

    def _load(self, name: str, settings: SecurityConfig) -> _InUse:
        stamps = _stamps(settings)
        identity, trusted = load_identity(name, settings), pem_of_trusted(name, settings)
        return _InUse(settings, identity, trusted, make_context(name, settings, identity, trusted, self._log), stamps)

    def _take(self, name: str, candidate: _InUse) -> None:
        self._in_use[name] = candidate
        renewable = self.contexts.get(name)
        if not isinstance(renewable, _Renewable):
            renewable = self.contexts[name] = _Renewable(ssl.PROTOCOL_TLS_SERVER)
        renewable.latest = candidate.context

    def _check(self, name: str, present: _InUse, candidate: _InUse) -> None:
        """Check that clients and brokers that trusted this broker still do. Raises `TlsError`."""
        _same_broker(present.identity, candidate.identity, candidate.settings)
        if present.trusted is None and candidate.trusted is not None:
            raise _refused("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
        if name == self._inside:
            for client, server in ((present, candidate), (candidate, present)):
                _shake_hands(name, client, server)


def settings_of(listener: str, config: Config) -> SecurityConfig:
    """The settings of an open listener: its first ones, except its certificates and trusted authorities.

    Raises `BadValue` for a text that its key does not permit.
    """
    texts: dict[str, str] = {}
    for source, layer in reversed(config.layers):
        if source is ConfigSource.STATIC_BROKER:
            texts |= layer
    changes = {f"{_prefix(listener)}{key}": text for key, text in _changes(listener, config).items()}
    return SecurityConfig.of(texts | changes, listener=listener)


def _changes(listener: str, config: Config) -> dict[str, str]:
    """The keys that were set for the listener while it was open, of those that may be."""
    return {
        key: text
        for source, layer in config.layers
        if source is ConfigSource.DYNAMIC_BROKER
        for name, text in layer.items()
        if (key := name.removeprefix(_prefix(listener))) in RECONFIGURABLE and key != name
    }


def _prefix(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}."


def _stamps(settings: SecurityConfig) -> tuple[tuple[int, int], ...]:
    found = []
    for path in (settings.ssl_keystore_location, settings.ssl_truststore_location):
        try:
            status = os.stat(path or "")
            found.append((status.st_mtime_ns, status.st_size))
        except (OSError, ValueError):
            found.append((0, 0))
    return tuple(found)


def _refused(reason: str) -> TlsError:
    return TlsError(reason, f"{_REFUSED}: {reason}")


def _unknown_type(name: str, config: Config, present: SecurityConfig) -> str:
    texts = _changes(name, config)
    location = texts.get("ssl.keystore.location", present.ssl_keystore_location)
    kind = texts.get("ssl.keystore.type", "")
    return f"org.apache.kafka.common.KafkaException: Failed to load SSL keystore {location} of type {kind}"


def _same_broker(present: Identity, candidate: Identity, settings: SecurityConfig) -> None:
    """Check that the new certificate has the same name and every alternative name of the old one (KIP-226)."""
    if settings.ssl_allow_dn_changes and settings.ssl_allow_san_changes:
        return
    need("cryptography", extra="certs")
    from odradek.net.certs import facts_of

    try:
        (old, old_others), (new, new_others) = facts_of(present.pem), facts_of(candidate.pem)
    except ValueError:
        raise TlsError(f"There is no certificate in {candidate.source}.", candidate.refusal) from None
    if old != new and not settings.ssl_allow_dn_changes:
        raise _refused(
            "Keystore DistinguishedName does not match: "
            f" existing={{alias={present.alias}, DN={old}}}, new={{alias={candidate.alias}, DN={new}}}"
        )
    if not old_others <= new_others and not settings.ssl_allow_san_changes:
        raise _refused(
            "Keystore SubjectAltNames do not match: "
            f" existing={{alias={present.alias}, SAN={_listed(old_others)}}},"
            f" new={{alias={candidate.alias}, SAN={_listed(new_others)}}}"
        )


def _listed(others: frozenset[tuple[int, str]]) -> str:
    return f"[{', '.join(f'[{number}, {text}]' for number, text in sorted(others))}]"


def _shake_hands(name: str, client: _InUse, server: _InUse) -> None:
    """Check that a broker with one certificate can connect to a broker with the other. Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    use(context, client.identity, name)
    if client.trusted is not None:
        trust(context, client.trusted, name, client.settings)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (context.wrap_bio(back, there), _quiet(server, name).wrap_bio(there, back, server_side=True))
    for _ in range(_FLIGHTS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                raise TlsError(f"Brokers do not trust one another: {error.verify_message}.", _UNTRUSTED) from None
            except ssl.SSLError as error:
                reason = (error.reason or type(error).__name__).replace("_", " ").lower()
                raise TlsError(f"Brokers cannot connect to one another: {reason}.", f"{_HANDSHAKE}: {reason}") from None


def _quiet(server: _InUse, name: str) -> ssl.SSLContext:
    """The context of a listener for a trial handshake, whose failure is not logged."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = server.context.verify_mode
    use(context, server.identity, name)
    if server.trusted is not None:
        trust(context, server.trusted, name, server.settings)
    return context
