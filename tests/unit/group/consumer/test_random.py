"""Members of a consumer group come, go, fall silent and change their minds in any order; some things always hold.

No partition is ever with two clients, a successor knows what its predecessor knew, and as soon as everybody reports the
group comes to rest with each partition assigned.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.examples import examples
from tests.unit.group.consumer.desk import NAMES, ConsumerClient, ConsumerDesk

from odradek.group.consumer.group import ConsumerGroup, ConsumerGroupState

SLOTS = st.integers(0, 3)
TOPICS = st.sampled_from([("orders",), ("refunds",), ("orders", "refunds"), ()])
ROUNDS = 12


class Consumers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.desk = ConsumerDesk({"orders": 4, "refunds": 3})
        self.clients = [ConsumerClient("A"), ConsumerClient("B"), ConsumerClient("C", "i"), ConsumerClient("D", "j")]
        self.counts = {"orders": 4, "refunds": 3}
        self.renamed = 0

    @rule(slot=SLOTS)
    def beat(self, slot: int) -> None:
        self.clients[slot].beat(self.desk)

    @rule(slot=SLOTS)
    def lose_the_answer(self, slot: int) -> None:
        """The coordinator goes on, and the client does not know; what it owns it owns still."""
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, client.epoch, client.owned, instance=client.instance)
            client.missed_answer = True

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, -1, instance=client.instance)
            client.epoch, client.owned = 0, {}

    @rule(slot=st.integers(2, 3))
    def restart(self, slot: int) -> None:
        """A static member goes for a while, and comes back under another id."""
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, -2, instance=client.instance)
            self.renamed += 1
            client.member_id, client.epoch, client.owned = f"{client.instance}{self.renamed}", 0, {}

    @rule(slot=SLOTS, topics=TOPICS)
    def subscribe(self, slot: int, topics: tuple[str, ...]) -> None:
        client = self.clients[slot]
        client.topics = topics
        if client.epoch > 0:
            self.desk.beat(client.member_id, client.epoch, client.owned, topics=topics, instance=client.instance)
            client.missed_answer = True

    @rule(topic=st.sampled_from(["orders", "refunds"]), more=st.integers(1, 3))
    def grow(self, topic: str, more: int) -> None:
        self.counts[topic] += more
        self.desk.set_topics(**self.counts)

    @rule(milliseconds=st.sampled_from([1_000, 20_000, 45_000]))
    def wait(self, milliseconds: int) -> None:
        """Whoever is dropped meanwhile has noticed that it could not report, and has stopped reading."""
        self.desk.sleep(milliseconds)
        group = self.group
        for client in self.clients:
            if group is None or client.member_id not in group.members:
                client.epoch, client.owned = 0, {}

    @rule()
    def fail_over(self) -> None:
        before = self.desk.machine.durable_state()
        self.desk.fail_over()
        assert before == self.desk.machine.durable_state()

    @rule()
    def come_to_rest(self) -> None:
        for _ in range(ROUNDS):
            for client in self.clients:
                client.beat(self.desk)
        group = self.group
        assert group is not None
        assert ConsumerGroupState.STABLE is group.state
        subscribed = {topic for client in self.clients for topic in client.topics}
        wanted = {(NAMES[topic], index) for topic in subscribed for index in range(self.counts[topic])}
        assert wanted == set().union(*(client.partitions for client in self.clients))

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.desk.machine._groups.get("g")
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    @invariant()
    def no_partition_is_with_two(self) -> None:
        owned = [each for client in self.clients for each in client.partitions]
        assert len(owned) == len(set(owned))

    @invariant()
    def owners_are_members(self) -> None:
        group = self.group
        if group is None:
            return
        held = [each for member in group.members.values() for each in member.held()]
        assert len(held) == len(set(held))
        assert all(index in group.taken(topic_id) for topic_id, index in held)
        assert sum(map(len, group._owners.values())) == len(held)


Consumers.TestCase.settings = examples(50, steps=30)
TestConsumers = Consumers.TestCase
