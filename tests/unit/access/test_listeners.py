"""Kafka's syntax of listeners, and what is said of those that no broker can have."""

from __future__ import annotations

import pytest

from odradek.access.listeners import Listener, ListenersError, SecurityProtocol, read_listeners
from odradek.config.table import Config, ConfigError


def listeners(**settings: str) -> tuple[Listener, ...]:
    config = Config.parse({key.replace("_", "."): value for key, value in settings.items()})
    return read_listeners(config, host="127.0.0.1", port=9092)


def test_without_any_there_is_one_that_asks_nothing() -> None:
    [only] = listeners()
    assert ("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092) == (
        only.name,
        only.protocol,
        only.host,
        only.port,
    )


def test_several_with_names_of_their_own() -> None:
    found = listeners(
        listeners="INSIDE://:9092,OUTSIDE://[::1]:9093,CONTROLLER://:9094",
        listener_security_protocol_map="inside:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT",
        advertised_listeners="OUTSIDE://kafka.example:19093,INSIDE://broker:9092",
        controller_listener_names="CONTROLLER",
        inter_broker_listener_name="INSIDE",
    )
    assert [
        ("INSIDE", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092, "broker", 9092),
        ("OUTSIDE", SecurityProtocol.SASL_SSL, "::1", 9093, "kafka.example", 19093),
    ] == [
        (each.name, each.protocol, each.host, each.port, each.advertised_host, each.advertised_port) for each in found
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"listeners": "PLAINTEXT:9092"}, "listeners takes NAME://HOST:PORT,…, not PLAINTEXT:9092."),
        ({"listeners": "PLAINTEXT://:99999"}, "listeners takes NAME://HOST:PORT,…, not PLAINTEXT://:99999."),
        ({"listeners": "INSIDE://:9092"}, "No security protocol is defined for listener INSIDE."),
        (
            {"listeners": "SSL://:1,ssl://:2"},
            "Each listener must have a different name: SSL://:1, ssl://:2.",
        ),
        (
            {"listeners": "SSL://:1,PLAINTEXT://:1"},
            "Each listener must have a different port: SSL://:1, PLAINTEXT://:1.",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "listener_security_protocol_map": "PLAINTEXT:TLS"},
            "listener.security.protocol.map takes NAME:PROTOCOL,…, not PLAINTEXT:TLS.",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised_listeners": "SSL://h:1"},
            "advertised.listeners names SSL, and listeners does not.",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://0.0.0.0:1"},
            "advertised.listeners cannot tell clients of PLAINTEXT to connect to 0.0.0.0.",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "inter_broker_listener_name": "SSL"},
            "The inter-broker listener SSL is not one of the listeners.",
        ),
        (
            {
                "listeners": "SSL://:1",
                "inter_broker_listener_name": "SSL",
                "security_inter_broker_protocol": "SSL",
            },
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
    ],
)
def test_what_no_broker_can_have(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ListenersError) as caught:
        listeners(**settings)
    assert sentence == str(caught.value)


def test_the_port_of_the_command_line_is_that_of_the_only_listener() -> None:
    one = Config.parse({"listeners": "SSL://:9092"})
    [only] = read_listeners(one, host="h", port=1, advertised_host="told", advertised_port=19092)
    assert ("told", 19092) == (only.advertised_host, only.advertised_port)
    several = Config.parse({"listeners": "SSL://:9092,PLAINTEXT://:9093"})
    with pytest.raises(ListenersError, match=r"With several listeners advertised\.listeners says which ports"):
        read_listeners(several, host="h", port=1, advertised_port=19092)


def test_the_closest_key_wins() -> None:
    config = Config.parse(
        {
            "ssl.client.auth": "none",
            "listener.name.outside.ssl.client.auth": "required",
            "connections.max.reauth.ms": "1",
            "listener.name.outside.connections.max.reauth.ms": "2",
            "listener.name.outside.plain.connections.max.reauth.ms": "3",
        }
    )
    assert ("none", "required") == (config.security().ssl_client_auth, config.security("OUTSIDE").ssl_client_auth)
    assert [1, 2, 3, 2] == [
        config.security(*where).connections_max_reauth_ms
        for where in (("INSIDE",), ("OUTSIDE",), ("OUTSIDE", "PLAIN"), ("OUTSIDE", "SCRAM-SHA-256"))
    ]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("listener.name.x.num.partitions", "1", "Unknown configuration key listener.name.x.num.partitions"),
        ("listener.name.x.ssl.client.auth", "perhaps", "Invalid value perhaps for configuration ssl.client.auth"),
        ("ssl.keystore.type", "WORD", "Invalid value WORD for configuration ssl.keystore.type"),
        ("authorizer.class.name", "mine.Authorizer", "Invalid value mine.Authorizer"),
    ],
)
def test_keys_that_mean_nothing(key: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Config.parse({key: value})


def test_what_has_an_effect_is_not_warned_about() -> None:
    config = Config.parse({"listeners": "SSL://:1", "ssl.client.auth": "none", "num.io.threads": "3"})
    assert ["num.io.threads"] == config.without_effect
