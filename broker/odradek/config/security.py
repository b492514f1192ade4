"""The keys of listeners, TLS, SASL and the authorizer, with Kafka's names and defaults.

`SecurityConfig` holds the values for one listener. A key may be set for all listeners, as `listener.name.NAME.KEY` for
one listener, or as `listener.name.NAME.MECHANISM.KEY` for one mechanism of one listener; the most specific one takes
precedence (KIP-103, 226). Names of listeners and mechanisms are in lower case in such keys.
"""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.keys import (
    Annotated,
    Key,
    Kind,
    Rule,
    Value,
    boolean,
    choices,
    integer,
    keys_of,
    listing,
    long,
    string,
)

__all__ = ["KEYS", "LISTENER_PREFIX", "PER_MECHANISM", "RECONFIGURABLE", "SecurityConfig", "is_listener_key", "key_of"]

LISTENER_PREFIX = "listener.name."
PER_MECHANISM = frozenset(
    {"sasl.jaas.config", "connections.max.reauth.ms", "sasl.server.max.receive.size", "odradek.sasl.oauthbearer.jwks"}
    | {
        f"sasl.oauthbearer.{name}"
        for name in (
            "jwks.endpoint.url", "expected.audience", "expected.issuer", "allow.unverified.audience",
            "allow.unverified.issuer", "sub.claim.name", "clock.skew.seconds",
        )
    }
)  # fmt: skip
"""Keys that may be set for one mechanism of a listener."""
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


def password() -> Rule:
    """A text that DescribeConfigs never shows."""
    return Rule(Kind.PASSWORD)


class SecurityConfig(Struct, frozen=True, kw_only=True):
    """The values for one listener: how clients connect and log in."""

    # listeners
    listeners: Annotated[tuple[str, ...], listing()] = ()
    advertised_listeners: Annotated[tuple[str, ...], listing()] = ()
    listener_security_protocol_map: Annotated[tuple[str, ...], listing()] = tuple(_PROTOCOLS.split(","))
    controller_listener_names: Annotated[tuple[str, ...], listing()] = ()
    inter_broker_listener_name: Annotated[str | None, string()] = None
    security_inter_broker_protocol: Annotated[str | None, choices("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")] = (
        None
    )

    # TLS
    ssl_keystore_type: Annotated[str, choices("PEM", "PKCS12", "JKS")] = "JKS"
    ssl_keystore_location: Annotated[str | None, string()] = None
    ssl_keystore_password: Annotated[str | None, password()] = None
    ssl_keystore_key: Annotated[str | None, password()] = None
    ssl_keystore_certificate_chain: Annotated[str | None, password()] = None
    ssl_key_password: Annotated[str | None, password()] = None
    ssl_truststore_type: Annotated[str, choices("PEM", "PKCS12", "JKS")] = "JKS"
    ssl_truststore_location: Annotated[str | None, string()] = None
    ssl_truststore_password: Annotated[str | None, password()] = None
    ssl_truststore_certificates: Annotated[str | None, password()] = None
    ssl_allow_dn_changes: Annotated[bool, boolean()] = False
    ssl_allow_san_changes: Annotated[bool, boolean()] = False
    ssl_client_auth: Annotated[str, choices("required", "requested", "none")] = "none"
    ssl_enabled_protocols: Annotated[tuple[str, ...], listing(*_TLS_VERSIONS)] = _TLS_VERSIONS
    ssl_principal_mapping_rules: Annotated[str, string()] = "DEFAULT"

    # SASL
    sasl_enabled_mechanisms: Annotated[tuple[str, ...], listing()] = ("GSSAPI",)
    sasl_jaas_config: Annotated[str | None, password()] = None
    sasl_server_max_receive_size: Annotated[int, integer()] = 524_288
    connections_max_reauth_ms: Annotated[int, long()] = 0
    connection_failed_authentication_delay_ms: Annotated[int, integer(0)] = 100
    odradek_sasl_users: Annotated[str | None, password()] = None
    """`NAME:PASSWORD,NAME:PASSWORD`: users that can log in with PLAIN and SCRAM from the first start on."""

    # signed tokens (KIP-768)
    sasl_oauthbearer_jwks_endpoint_url: Annotated[str | None, string()] = None
    sasl_oauthbearer_expected_audience: Annotated[tuple[str, ...], listing()] = ()
    sasl_oauthbearer_expected_issuer: Annotated[str | None, string()] = None
    sasl_oauthbearer_allow_unverified_audience: Annotated[bool, boolean()] = False
    sasl_oauthbearer_allow_unverified_issuer: Annotated[bool, boolean()] = False
    sasl_oauthbearer_sub_claim_name: Annotated[str, string()] = "sub"
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, integer()] = 30
    odradek_sasl_oauthbearer_jwks: Annotated[str | None, string()] = None
    """A JSON Web Key Set (RFC 7517) itself, in place of a file with one."""

    # delegation tokens
    delegation_token_secret_key: Annotated[str | None, password()] = None
    delegation_token_max_lifetime_ms: Annotated[int, long(1)] = 604_800_000
    delegation_token_expiry_time_ms: Annotated[int, long(1)] = 86_400_000
    delegation_token_expiry_check_interval_ms: Annotated[int, long(1)] = 3_600_000

    # authorization
    authorizer_class_name: Annotated[str, choices("", STANDARD_AUTHORIZER)] = ""
    super_users: Annotated[str, string()] = ""
    allow_everyone_if_no_acl_found: Annotated[bool, boolean()] = False

    @classmethod
    def of(cls, texts: Mapping[str, str], *, listener: str = "", mechanism: str = "") -> Self:
        """The values for a listener, or for one mechanism of it, from the texts of a configuration.

        Raises `BadValue` for a text that its key does not permit.
        """
        prefixes = [""]
        if listener:
            prefixes.append(f"{LISTENER_PREFIX}{listener.lower()}.")
            if mechanism:
                prefixes.append(f"{prefixes[-1]}{mechanism.lower()}.")
        values: dict[str, Value] = {}
        for prefix in prefixes:
            for name, key in KEYS.items():
                text = texts.get(prefix + name)
                if text is not None:
                    values[key.attribute] = key.parse(text)
        return replace(cls(), **values)


RECONFIGURABLE = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type", "keystore.location", "keystore.password", "keystore.key", "keystore.certificate.chain",
        "key.password", "truststore.type", "truststore.location", "truststore.password", "truststore.certificates",
    )
)  # fmt: skip
"""Keys of one listener that may change while it is open: private key, certificates, authorities (KIP-226)."""


def is_listener_key(name: str) -> bool:
    """Whether this is a key of one listener, and has an effect here."""
    return name.startswith(LISTENER_PREFIX) and key_of(name) is not None


def key_of(name: str) -> Key | None:
    """The key without the prefix of a listener and a mechanism; None if there is no such key."""
    if not name.startswith(LISTENER_PREFIX):
        return KEYS.get(name)
    _, _, bare = name.removeprefix(LISTENER_PREFIX).partition(".")
    if bare in KEYS:
        return KEYS[bare]
    mechanism, _, rest = bare.partition(".")
    return KEYS.get(rest) if mechanism and rest in PER_MECHANISM else None


KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(SecurityConfig)}
"""The keys of `SecurityConfig`, by Kafka's name."""
