"""The levels of a broker's loggers, and what they do to what is logged (KIP-412)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.cli.logs import make_logger
from odradek.core.machine import Fact
from odradek.host.facts import Facts
from odradek.host.loggers import LOGGERS, ROOT, Loggers
from odradek.sim import World
from odradek.sim.world.world import Lines
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest

BROKER_LOGGER = 8
TRANSACTIONS = "kafka.coordinator.transaction.TransactionCoordinator"
REQUESTS = "kafka.request.logger"


def alter(world: World, *, node: int = 1, validate_only: bool = False, **levels: str | None) -> Any:
    names = {"requests": REQUESTS, "transactions": TRANSACTIONS, "root": ROOT}
    configs = [
        AlterableConfig(name=names[name], config_operation=int(level is None), value=level)
        for name, level in levels.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=str(node), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    [result] = world.client(node).ask(request, 1).responses
    assert (ErrorCode.NONE, None) == (result.error_code, result.error_message)
    return result


def logged(world: World, event: str) -> list[dict[str, Any]]:
    return [fields for _, name, fields in world.log.lines if name == event]


@pytest.mark.parametrize("tells", [True, False])
def test_every_request_is_logged_at_debug_and_no_longer(tells: bool) -> None:
    world = World(tells=tells)
    client = world.client()
    client.ask(MetadataRequest(), 9)
    assert [] == logged(world, "request")
    alter(world, requests="DEBUG")
    client.ask(MetadataRequest(), 9)
    assert {"METADATA"} <= {fields["api"] for fields in logged(world, "request")}
    [answer] = [fields for fields in logged(world, "response") if fields["api"] == "METADATA"]
    assert ("NONE", False) == (answer["error"], "body" in answer)
    assert [] == logged(world, "leadership_taken")
    alter(world, requests=None)
    world.log.lines.clear()
    client.ask(MetadataRequest(), 9)
    assert [] == logged(world, "request")


def test_a_broker_has_its_own_levels() -> None:
    world = World(brokers=2, tells=False)
    alter(world, node=2, requests="DEBUG")
    world.client(1).ask(MetadataRequest(), 9)
    assert [] == [fields for fields in logged(world, "request") if fields["node"] == 1]


def test_what_is_only_validated_changes_nothing() -> None:
    world = World(tells=False)
    alter(world, validate_only=True, requests="DEBUG")
    world.client().ask(MetadataRequest(), 9)
    assert [] == logged(world, "request")


def test_what_happens_to_transactions_is_logged_at_debug() -> None:
    from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

    world = World(tells=False)
    request = InitProducerIdRequest(transactional_id="before", transaction_timeout_ms=1000)
    world.client().ask(request, 4)
    alter(world, transactions="DEBUG")
    for name in ("before", "after"):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        world.client().ask(request, 4)
    assert ["before", "after"] == [fields["transactional_id"] for fields in logged(world, "init_producer_id")]


def test_a_level_above_a_line_silences_it() -> None:
    lines = Lines()
    log = Loggers(lines)
    log.set_level(ROOT, "ERROR")
    log.warning("connection_closed")
    log.error("request_failed")
    log.set_level("kafka.network.SocketServer", "WARN")
    log.warning("connection_closed")
    log.set_level(ROOT, "FATAL")
    log.error("request_failed")
    log.warning("unheard_of")
    assert ["request_failed", "connection_closed"] == [event for _, event, _ in lines.lines]


def test_facts_that_concern_an_operator_stay_warnings() -> None:
    lines = Lines()
    log = Loggers(lines)
    facts = Facts(1, log, None)
    facts.emit([Fact("broker_fenced", {"broker": 2}), Fact("state_change", {})])
    assert [("warning", "broker_fenced", {"node": 1, "broker": 2})] == lines.lines
    log.set_level("org.apache.kafka.controller.QuorumController", "ERROR")
    facts.emit([Fact("broker_fenced", {"broker": 2})])
    assert 1 == len(lines.lines)


def test_more_is_written_than_the_process_logs(capsys: pytest.CaptureFixture[str]) -> None:
    log = Loggers(make_logger(level="error", as_json=True))
    assert {"ERROR"} == set(log.levels().values())
    log.info("request")
    log.set_level(REQUESTS, "INFO")
    log.info("request", api="FETCH")
    log.debug("request")
    log.info("state_change")
    [line] = capsys.readouterr().err.splitlines()
    assert {"event": "request", "level": "info", "api": "FETCH"}.items() <= json.loads(line).items()
    assert ("INFO", "ERROR") == (log.levels()[REQUESTS], log.levels()[ROOT])


def test_every_event_has_one_logger() -> None:
    events = [event for each in LOGGERS.values() for event in each]
    assert len(events) == len(set(events))
