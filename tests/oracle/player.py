"""Plays a scenario against one broker and writes down what it answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from msgspec import Struct, convert
from tests.oracle.answers import Aliases, find, render
from tests.oracle.client import ANSWER_TIMEOUT_S, Client, ConnectionClosed, NoAnswer, known_version
from tests.oracle.language import LanguageError, Scope, is_option, split_option
from tests.oracle.requests import api_key, build_request
from tests.oracle.scenario import Condition, Scenario, Step
from tests.oracle.shapes import CAPTURED, Fields, request_fields
from tests.oracle.transcript import Entry

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.registry import ApiKey, encode

__all__ = [
    "COORDINATOR_PARTITIONS",
    "FAR_PARTITION",
    "TRANSIENT",
    "Answer",
    "Broker",
    "Neighbour",
    "Nodes",
    "Player",
    "Verb",
    "java_hash",
    "name_at",
    "wait_until",
]

POLL_INTERVAL_S = 0.001
POLL_INTERVAL_MAX_S = 0.02
POLL_LIMIT_S = 5.0
COORDINATOR_PARTITIONS = 3
FAR_PARTITION = COORDINATOR_PARTITIONS - 1
ABSENT = (-1, "", None)
PROTOCOL_VERSION = 1
"""Of what consumers of the classic protocol tell each other."""

TRANSIENT = frozenset(
    error.name
    for error in (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""What an answer that is `settled` does not hold."""


class Neighbour(IntEnum):
    """Whether there is another broker beside the one that clients talk to, and for what."""

    NONE = 0
    HOLDS = 1
    COORDINATES = 2
    FOLLOWS = 3
    COME_AND_GO = 4


class Nodes(Protocol):
    """Brokers that come and go; the first is the controller, and stays."""

    def broker_address(self, node: int) -> tuple[str, int]:
        """Where a broker listens, or will again."""

    def create(self, topic: str, replicas: list[list[int]], configs: Mapping[str, str]) -> None:
        """Create a topic with a partition on each of these lists of brokers; it can be written then."""

    def kill(self, node: int) -> None:
        """End a broker as a crash does."""

    def start(self, node: int) -> None:
        """Start it again on its own data; every broker knows then that it is there."""

    def freeze(self, node: int) -> None:
        """Have it hear and do nothing, and fetch nothing more."""

    def thaw(self, node: int) -> None:
        """Let it go on."""

    def expire(self, node: int) -> None:
        """Wait until every other broker knows that it is gone."""

    def restore(self) -> None:
        """Have all of them there and in sync, and lead what they led at first."""


class Broker(Protocol):
    """What a scenario is played against."""

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""

    @property
    def neighbour(self) -> Neighbour:
        """Whether there is another broker."""

    @property
    def ports(self) -> Mapping[int, str]:
        """What ports are called in answers."""

    @property
    def nodes(self) -> Nodes | None:
        """Where there are brokers that come and go."""

    @property
    def patience_s(self) -> float:
        """How long to wait for what has to come."""

    def address_of(self, topic: str) -> tuple[str, int]:
        """Where the leader of a topic's only partition is."""

    @property
    def settle_s(self) -> float:
        """How long it may take to heed a changed config once it shows it."""

    def restart(self, *, crash: bool) -> None:
        """End it, cleanly or not, and start it again on the same data."""

    def settle(self) -> None:
        """Bring the coordinators, which serve now, to where clients connect."""

    def hold(self, topic: str) -> None:
        """Create a topic with one partition, which no marker of a transaction reaches until it is released."""

    def release(self, topic: str) -> None:
        """Let the markers through."""

    def give_away(self, topic: str) -> None:
        """Create a topic with one partition, which the other broker leads."""

    def follow(self, topic: str, *, lagging: bool) -> None:
        """Create a topic with one partition, whose other replica is out of sync, or in sync and acknowledges nothing.

        Where it is out of sync, two replicas have to be in sync, until the topic is released; where it lags, it is out
        of sync from then on.
        """

    def follow_no_more(self, topic: str) -> None:
        """The scenario is over."""


@dataclass(frozen=True)
class Answer:
    """What came back: a message, or the reason why there is none."""

    message: Any
    version: int = 0
    reason: str = ""


Verb = Callable[["Player", Step], Iterable[str]]
"""Does what a line of a scenario says, and gives the lines of the transcript."""


def wait_until(holds: Callable[[], bool], *, limit_s: float = POLL_LIMIT_S) -> bool:
    """Ask again and again until it holds; false if it never did."""
    deadline = time.monotonic() + limit_s
    interval_s = POLL_INTERVAL_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
        interval_s = min(2 * interval_s, POLL_INTERVAL_MAX_S)
    return True


class Player:
    """One scenario at one level: its connections, its variables, and the names of its producers."""

    def __init__(self, scenario: Scenario, level: int, broker: Broker, verbs: Mapping[str, Verb]) -> None:
        self.verbs = verbs
        self.scenario = scenario
        self.level = level
        self.broker = broker
        functions: dict[str, Callable[..., Any]] = {
            "id": self.topic_id,
            "far": self.far,
            "near": self.near,
            "subscription": subscription,
        }
        self.scope = Scope(scenario.prefix, {**functions, "assignment": assignment})
        restarts = scenario.has("seed", "restart", "crash", "hold")
        self.aliases = Aliases(
            scenario.prefix, ports=broker.ports, restarts=restarts, coordinators_move=broker.nodes is not None
        )
        self.topic_ids: dict[str, bytes] = {}
        self.clients: dict[str, Client] = {}
        self.sent: dict[str, list[Step]] = {}
        self.seeds: dict[str, int] = {}
        self.undo: list[Callable[[], None]] = []

    def topic_id(self, name: str) -> bytes:
        """The function `id(t)` of scenarios."""
        if name not in self.topic_ids:
            raise LanguageError(f"the topic has no known id: {name}")
        return self.topic_ids[name]

    def far(self, name: str) -> str:
        """The function `far("tid")`: an id that the other broker coordinates."""
        return name_at(FAR_PARTITION, self.scope.unique(name))

    def near(self, name: str) -> str:
        """The function `near("tid")`: an id that the broker itself coordinates."""
        return name_at(0, self.scope.unique(name))

    # ------------------------------------------------------------------ a whole scenario

    def play(self) -> list[Entry]:
        """Take every step; undo afterwards what would be felt by other scenarios."""
        try:
            entries = []
            for number, step in enumerate(self.scenario.steps):
                if self.level in step.levels:
                    entries.append(Entry(number, step.text, tuple(self.take(step))))
            return entries
        finally:
            self.end()

    def take(self, step: Step) -> list[str]:
        """The lines of a step; whatever fails names the scenario and the line."""
        try:
            return list(self.request(step) if step.is_request else self.verbs[step.verb](self, step))
        except Exception as error:
            error.add_note(f"in {self.scenario.topic}.txt line {step.line}: {step.text}")
            raise

    def end(self) -> None:
        self.close()
        for undo in reversed(self.undo):
            undo()
        self.close()

    def close(self) -> None:
        """Drop every connection; the next request of each opens a new one."""
        while self.clients:
            self.clients.popitem()[1].close()

    # ------------------------------------------------------------------ requests of a scenario

    def request(self, step: Step) -> list[str]:
        """Send the request of a step and write down the answer, the last one if it is asked again and again."""
        words, settings = take_settings(step.words)
        fields = request_fields(step.verb, step.version, words, self.scope, self.topic_ids)
        client_id = settings.get("client", '"oracle"')
        message = build_request(api_key(step.verb), fields)
        if step.send_only:
            self.client(step.connection).send(
                api_key(step.verb), step.version, message, client_id=self.scope.value(client_id)
            )
            self.sent.setdefault(step.connection, []).append(step)
            return []
        limit_s = self.scope.value(settings.get("within", "0")) / 1000
        answer = Answer(None)

        def holds() -> bool:
            nonlocal answer
            answer = self.ask(
                step.verb,
                step.version,
                message,
                connection=step.connection,
                client_id=self.scope.value(client_id),
                timeout_s=(limit_s or ANSWER_TIMEOUT_S) if not step.until else ANSWER_TIMEOUT_S,
            )
            return all(self.shows(answer, condition) for condition in step.until)

        # Without a condition the first answer will do.
        held = wait_until(holds, limit_s=limit_s or self.broker.patience_s)
        self.capture(step, answer)
        lines = self.lines(answer, without=settings.get("without", ""))
        return lines if held else [*lines, "never"]

    def ask(
        self,
        api: str,
        version: int,
        message: Struct,
        *,
        connection: str = "a",
        client_id: str | None = "oracle",
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """One request and its answer."""
        key = api_key(api)
        try:
            client = self.client(connection)
            client.send(key, version, message, client_id=client_id)
            if key is ApiKey.PRODUCE and getattr(message, "acks", -1) == 0:
                return self.ask_for_silence(client)
        except ConnectionClosed:
            return self.lost(connection, "connection closed")
        return self.receive(connection, timeout_s=timeout_s)

    def receive(self, connection: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """The next answer on a connection."""
        client = self.client(connection)
        _, key, version = client.expected[0]
        try:
            message = client.receive(timeout_s=timeout_s)
        except ConnectionClosed:
            return self.lost(connection, "connection closed")
        except NoAnswer:
            return self.lost(connection, "no answer")
        if key is ApiKey.API_VERSIONS and message.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        return Answer(message, known_version(key, version))

    def ask_for_silence(self, client: Client) -> Answer:
        """What acks=0 gets: nothing, but whether the connection lives is seen by a second request."""
        client.forget()
        client.send(ApiKey.API_VERSIONS, 0, build_request(ApiKey.API_VERSIONS, {}))
        try:
            client.receive()
        except ConnectionClosed:
            return self.lost("a", "connection closed")
        return Answer(None, reason="nothing answered, nothing expected")

    def lost(self, connection: str, reason: str) -> Answer:
        with contextlib.suppress(KeyError):
            self.clients.pop(connection).close()
        return Answer(None, reason=reason)

    def client(self, connection: str) -> Client:
        if connection not in self.clients:
            self.clients[connection] = Client(self.address_of(connection))
        return self.clients[connection]

    def address_of(self, connection: str) -> tuple[str, int]:
        """A connection that is called like a held topic leads to that topic's leader, `2` to the second broker."""
        if self.broker.nodes is not None and connection[0].isdigit():
            return self.broker.nodes.broker_address(int(connection[0]))
        return self.broker.address_of(self.scope.unique(connection))

    def hang_up(self) -> None:
        """Close every connection on which no answer is owed."""
        for connection in [each for each in self.clients if not self.sent.get(each)]:
            self.clients.pop(connection).close()

    # ------------------------------------------------------------------ requests of the runner itself

    def call(self, api: str, version: int, fields: Fields) -> Any:
        """Ask something that is no part of the story, on a connection of its own."""
        answer = self.ask(api, version, build_request(api_key(api), fields), connection="runner")
        if answer.message is None:
            raise ConnectionError(f"{api} v{version}: {answer.reason}")
        return answer.message

    # ------------------------------------------------------------------ answers

    def lines(self, answer: Answer, *, without: str = "") -> list[str]:
        if answer.message is None:
            return [f"({answer.reason})"]
        return render(answer.message, answer.version, self.aliases, without=without) or ["(empty)"]

    def shows(self, answer: Answer, condition: Condition) -> bool:
        """Whether a condition holds."""
        if answer.message is None:
            return False
        texts = self.texts(answer, condition.field)
        if condition.field == "settled":
            return not TRANSIENT & set(self.texts(answer, "error"))
        if condition.negated:
            return condition.text not in texts
        return bool(texts) and all(text == condition.text for text in texts)

    def texts(self, answer: Answer, name: str) -> list[str]:
        return [text for text, _ in find(name, answer.message, answer.version, self.aliases)]

    def capture(self, step: Step, answer: Answer) -> None:
        """Set the variables behind `->`; what an answer lacks leaves them as they were."""
        for place, word in enumerate(step.captures):
            name, _, field = word.partition("=")
            if name == "_":
                continue
            field = field or CAPTURED[step.verb][place]
            found = [] if answer.message is None else list(find(field, answer.message, answer.version, self.aliases))
            value = found[0][1] if found else -1
            if value not in ABSENT or name not in self.scope.variables:
                self.scope.variables[name] = value


def name_at(partition: int, stem: str) -> str:
    """A name that falls on this partition of a coordinator's topic."""
    return next(
        stem + letter for letter in "abc" if abs(java_hash(stem + letter)) % COORDINATOR_PARTITIONS == partition
    )


def subscription(topics: list[str], *owned: list[Any]) -> bytes:
    """The function `subscription([t], [t, 0])`: what a consumer of the classic protocol joins with."""
    message = convert({"topics": topics, "owned_partitions": partitions_of(owned)}, ConsumerProtocolSubscription)
    return PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, PROTOCOL_VERSION)


def assignment(*assigned: list[Any]) -> bytes:
    """The function `assignment([t, 0, 1])`: what the leader of a classic group brings for a member."""
    message = convert({"assigned_partitions": partitions_of(assigned)}, ConsumerProtocolAssignment)
    return PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, PROTOCOL_VERSION)


def partitions_of(lists: Iterable[list[Any]]) -> list[dict[str, Any]]:
    """Lists of a topic and its partitions, as the consumers' own messages hold them."""
    return [{"topic": topic, "partitions": indexes} for topic, *indexes in lists]


def java_hash(text: str) -> int:
    """`String.hashCode`."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def take_settings(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Cut out what is not the request's: `client="name"`, `within=milliseconds`, `without=field` of the answer."""
    settings = dict(split_option(word) for word in words if is_option(word) and split_option(word)[0] in SETTINGS)
    return tuple(word for word in words if not is_option(word) or split_option(word)[0] not in SETTINGS), settings


SETTINGS = frozenset({"client", "within", "without"})
