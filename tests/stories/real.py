"""Plays the stories on a real Apache Kafka, and writes down what the clients did: `python -m tests.stories.real`.

    python -m tests.stories.real                                   # all that can be played there, about fifteen minutes
    python -m tests.stories.real late-produce-after-abort --family java

It needs Java and Maven, for the broker and the clients. The outcomes go into
`broker/odradek/page/stories/outcomes.json`, and from there into the pages (`python -m tests.stories.outcomes`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.oracle.client import Client
from tests.oracle.real_kafka import RealKafka, free_port
from tests.oracle.requests import build_request
from tests.stories.between import Between, Unplayable, check_playable
from tests.stories.confluent import PLAYED
from tests.stories.outcomes import CLIENTS, OUTCOMES, write
from tests.stories.scenarios import outcome_of, played

from odradek.control.plan import Plan
from odradek.control.stories import read_story
from odradek.faults.armed import SeenRequest
from odradek.faults.model import Step
from odradek.metadata.feature_updates import UpgradeType
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

WAIT_S = 60
LAST = "downgrade-under-way"
USUAL: Mapping[str, str] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings of stories that disturb no other one, so that they share a broker."""

# What takes the place of a step that only brokers of one's own can do, in the settings of the broker.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "producer-id-expires": {
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    },
}
BY_SETTINGS = frozenset({"advance_ms", "set_producer_epoch"})
"""Steps in whose place something is done before."""
AGED = {"epoch-overflow": 32_765}


class Stage:
    """A real broker, and the rules before it."""

    def __init__(
        self, kafka: RealKafka, bootstrap: str, portal: BlockingPortal, ports: tuple[tuple[int, int, bool], ...]
    ) -> None:
        self.kafka = kafka
        self.bootstrap = bootstrap
        self._portal = portal
        self._ports = ports

    def _admin(self) -> AdminClient:
        """A client of its own for each use: nobody listens here from time to time."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @contextmanager
    def arranged(self, plan: Plan | None) -> Iterator[Between]:
        """Stand between, with these rules; without a plan with none."""
        between = Between([] if plan is None else plan.rules, self.follow)
        for port, upstream, of_brokers in self._ports:
            self._portal.call(partial(between.listen, port, upstream, of_brokers=of_brokers))
        try:
            yield between
        finally:
            self._portal.call(between.close)

    def clean(self) -> None:
        """Leave no topic and no group of an earlier story."""
        with self.arranged(None):
            admin = self._admin()
            topics = [name for name in admin.list_topics(timeout=WAIT_S).topics if not name.startswith("__")]
            for future in (admin.delete_topics(topics) if topics else {}).values():
                future.result(WAIT_S)
            self.wait_for(partial(self._without_groups, admin))

    def _without_groups(self, admin: AdminClient) -> bool:
        """Delete the groups; one whose members have not left has to wait for that."""
        groups = [each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid]
        gone = admin.delete_consumer_groups(groups) if groups else {}
        return all(future.exception(WAIT_S) is None for future in gone.values())

    def create(self, topic: str, partitions: int) -> None:
        """A topic, as soon as it can be: the one of the same name may still be on its way out."""
        admin = self._admin()
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)

    def restore(self, level: int) -> None:
        """The level that the broker began with."""
        self._finalize(level, upgrade=True)

    def wait_for(self, condition: Callable[[], object], *, timeout_s: float = WAIT_S) -> None:
        """Until it is so."""
        ends = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < ends, "it did not come about"
            time.sleep(0.1)

    def ask(self, api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        """Of the broker itself, past the rules."""
        client = Client(("127.0.0.1", self.kafka.port))
        try:
            client.send(api, version, build_request(api, dict(fields)))
            return client.receive()
        finally:
            client.close()

    def follow(self, step: Step, request: SeenRequest) -> None:
        """Do one step of a rule's `then`."""
        name = step.given[0]
        if name in BY_SETTINGS:
            return
        DOES[name](self, step, request)

    def set_level(self, step: Step, request: SeenRequest) -> None:
        self._finalize(step.set_transaction_version or 0, upgrade=False)

    def _finalize(self, level: int, *, upgrade: bool) -> None:
        update = {
            "feature": "transaction.version",
            "max_version_level": level,
            "upgrade_type": UpgradeType.UPGRADE if upgrade else UpgradeType.SAFE_DOWNGRADE,
        }
        answer = self.ask(ApiKey.UPDATE_FEATURES, 1, {"timeout_ms": 30_000, "feature_updates": [update]})
        assert not answer.error_code, (ErrorCode(answer.error_code).name, answer.error_message)

    def age(self, transactional_id: str, epoch: int) -> None:
        """Bump the epoch as often as it takes: a producer that begins anew each time. It takes a minute or two."""
        request = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
        client = Client(("127.0.0.1", self.kafka.port))
        try:
            reached = -1
            while reached < epoch:
                client.send(ApiKey.INIT_PRODUCER_ID, 4, build_request(ApiKey.INIT_PRODUCER_ID, dict(request)))
                reached = client.receive().producer_epoch
        finally:
            client.close()

    def restart(self, step: Step, request: SeenRequest) -> None:
        self.kafka.kill()
        self.kafka.start()


DOES: Mapping[str, Callable[[Stage, Step, SeenRequest], None]] = {
    "set_transaction_version": Stage.set_level,
    "restart_broker": Stage.restart,
}
WHY_NOT = {
    "move_leader": "the oracle is one broker, and nobody else can lead",
    "move_transaction_coordinator": "the oracle is one broker, and nobody else can coordinate",
    "set_coordinator_load_ms": "the oracle is one broker, and its coordinator cannot move",
}


def _check(plan: Plan) -> None:
    """Raises Unplayable, which says why."""
    if plan.cluster.as_kafka is not None:
        raise Unplayable(f"it is a story of Kafka {plan.cluster.as_kafka}, and the oracle is 4.4.0")
    check_playable(plan.rules)
    for rule in plan.rules:
        for step in rule.then:
            name = step.given[0]
            if name not in DOES and name not in BY_SETTINGS | {"release", "remove"}:
                raise Unplayable(WHY_NOT[name])


def _settings(name: str, plan: Plan) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The level and the settings of the broker that a story wants; many want the same."""
    level = 2 if plan.cluster.transaction_version is None else plan.cluster.transaction_version
    config = {key: str(value) for key, value in plan.cluster.config.items()} | dict(SETTINGS.get(name, {}))
    if level == 2 and name not in SETTINGS:
        config |= USUAL
    return level, tuple(sorted(config.items()))


@contextmanager
def running(level: int, settings: tuple[tuple[str, str], ...]) -> Iterator[Stage]:
    """A fresh broker whose listeners are advertised at other ports than they have."""
    at, between_at, own, own_between = (free_port() for _ in range(4))
    kafka = RealKafka(transaction_version=level, port=at)
    controller = kafka.properties["listeners"].split(",")[-1]
    kafka.properties = {
        **kafka.properties,
        "listeners": f"PLAINTEXT://127.0.0.1:{at},INTER://127.0.0.1:{own},{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{between_at},INTER://127.0.0.1:{own_between}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTER:PLAINTEXT",
        "inter.broker.listener.name": "INTER",
        **dict(settings),
    }
    with kafka, start_blocking_portal() as portal:
        yield Stage(kafka, f"127.0.0.1:{between_at}", portal, ((between_at, at, False), (own_between, own, True)))


def outcome_on(stage: Stage, name: str, family: str, plan: Plan) -> str:
    """What one client does in a story on a real broker."""
    stage.clean()
    what = f"{name}-{family}"
    if name in AGED:
        stage.age("till-1" if family == "confluent-kafka" else f"till-{what}", AGED[name])
    with stage.arranged(plan) as between:
        if family == "confluent-kafka":
            stage.create("orders", 2 if plan.cluster.topics[:1] == ["orders:2"] else 1)
            stage.create("copies", 1)
            outcome = PLAYED[name](stage)
        else:
            outcome = outcome_of(played(family, name, stage.bootstrap, topic=what, group=what))
        complaints = [*map(str, between.failures), *between.unmet()]
    if complaints:
        raise AssertionError("; ".join(complaints))
    return outcome


def main() -> None:
    """Play, tell, and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("story", nargs="*", help="one or several; all of them if none is named")
    parser.add_argument("--family", choices=list(CLIENTS), action="append", help="with this client alone")
    chosen = parser.parse_args()
    data = json.loads(OUTCOMES.read_text())

    def keep() -> None:
        OUTCOMES.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    wanted: dict[tuple[int, tuple[tuple[str, str], ...]], list[str]] = {}
    for name in chosen.story or data:
        plan = read_story(name)
        try:
            _check(plan)
            wanted.setdefault(_settings(name, plan), []).append(name)
        except Unplayable as why:
            data[name]["real"] = {"why_not": str(why)}
            print(f"{name}: {why}", flush=True)
    keep()
    for (level, settings), stories in wanted.items():
        with running(level, settings) as stage:
            for name in sorted(stories, key=lambda each: each == LAST):
                for family in [each for each in chosen.family or CLIENTS if each in data[name]["clients"]]:
                    try:
                        outcome = outcome_on(stage, name, family, read_story(name))
                    except Exception as error:
                        print(f"{name}: {family}: {error!r:.1500}", flush=True)
                        outcome = "not reached"
                    data[name]["real"].pop("why_not", None)
                    data[name]["real"].setdefault("outcomes", {})[family] = outcome
                    print(f"{name}: {family}: {outcome}", flush=True)
                    stage.restore(level)
                keep()
    write()


if __name__ == "__main__":
    main()
