"""The logins of each listener, read from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.access.credential import ScramCredential, ScramMechanism
from odradek.access.jaas import configured_users
from odradek.access.logins import MECHANISMS, OAUTHBEARER
from odradek.access.mechanisms import NOT_SERVED, Accounts, LoginsRefused, SaslListener
from odradek.access.principal import parse_principal
from odradek.access.scram import ITERATIONS_MIN, credential_of, salted_password
from odradek.access.tokens import TokenAccount, token_password
from odradek.config.security import SecurityConfig

if TYPE_CHECKING:
    from odradek.core.clock import Rng
    from odradek.host.facts import Logger
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings

__all__ = ["TokenAccounts", "sasl_listener"]

SALT_BYTES = 16


def sasl_listener(name: str, *, settings: Settings, metadata: Metadata, secrets: Rng, log: Logger) -> SaslListener:
    """The logins of this listener. Raises `LoginsRefused`."""
    config = settings.config
    security = config.security(name)
    mechanisms = security.sasl_enabled_mechanisms
    for mechanism in mechanisms:
        if mechanism in NOT_SERVED:
            raise LoginsRefused(f"sasl.enabled.mechanisms of listener {name}: {NOT_SERVED[mechanism]}")
        if mechanism not in MECHANISMS:
            raise LoginsRefused(
                f"sasl.enabled.mechanisms of listener {name}: there is no {mechanism}, but {', '.join(MECHANISMS)}."
            )
    if not mechanisms:
        raise LoginsRefused(f"Listener {name} has no sasl.enabled.mechanisms, and nobody could log in.")
    bearer = _signed_tokens(config.security(name, OAUTHBEARER), name) if OAUTHBEARER in mechanisms else None
    if OAUTHBEARER in mechanisms and bearer is None:
        log.warning("unsecured_tokens_accepted", listener=name)
    passwords = configured_users(config, name)
    return SaslListener(
        mechanisms=mechanisms,
        accounts=Accounts(
            password=passwords.get,
            scram=lambda user, number: metadata.image.scram.get((user, number)),
            token=TokenAccounts(settings, metadata, secrets).find,
            bearer=bearer,
        ),
        reauth_ms={each: config.security(name, each).connections_max_reauth_ms for each in mechanisms},
        receive_bytes_max=security.sasl_server_max_receive_size,
        failed_delay_ms=security.connection_failed_authentication_delay_ms,
    )


def _signed_tokens(settings: SecurityConfig, listener: str) -> Callable[[str, int], tuple[str, int] | None] | None:
    """The checker of signed tokens; None if no keys are configured."""
    keys = settings.odradek_sasl_oauthbearer_jwks
    if keys is None:
        return None
    try:
        from odradek.access.signed_tokens import KeysError, SignedTokens  # few listeners have signed tokens
    except ModuleNotFoundError as lacking:
        raise LoginsRefused(
            f"Listener {listener} checks signed tokens, which needs {lacking.name}: pip install 'odradek[jwks]'."
        ) from None
    try:
        return SignedTokens(settings, keys).valid
    except KeysError as error:
        raise LoginsRefused(f"Listener {listener}: {error}.") from None


class TokenAccounts:
    """The delegation tokens of one node, as SCRAM credentials, derived at the first use of each.

    Deriving a credential takes milliseconds; it serves for all logins with that token.
    """

    def __init__(self, settings: Settings, metadata: Metadata, secrets: Rng) -> None:
        self._settings = settings
        self._metadata = metadata
        self._secrets = secrets
        self._credentials: dict[tuple[str, int], ScramCredential] = {}

    def find(self, token_id: str, number: int) -> TokenAccount | None:
        """The SCRAM credential of a token; None if there is no such token."""
        secret = self._settings.config.security().delegation_token_secret_key
        token = self._metadata.image.tokens.get(token_id)
        if secret is None or token is None:
            self._credentials.pop((token_id, number), None)
            return None
        credential = self._credentials.get((token_id, number))
        if credential is None:
            mechanism, salt = ScramMechanism(number), self._secrets.randbytes(SALT_BYTES)
            salted = salted_password(mechanism, token_password(secret, token_id), salt, ITERATIONS_MIN)
            credential = credential_of(mechanism, salted, salt, ITERATIONS_MIN)
            self._credentials = {
                key: value for key, value in self._credentials.items() if key[0] in self._metadata.image.tokens
            }
            self._credentials[token_id, number] = credential
        return TokenAccount(credential, parse_principal(token.owner).name, token.expires_ms)
