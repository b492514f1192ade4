"""Members of a streams group come, go, fall silent and are slow in any order; some things always hold.

No task ever runs at two clients, none has a standby in the process that runs it, a successor knows what its
predecessor knew, and as soon as everybody reports the group comes to rest with each task running.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from tests.examples import examples
from tests.unit.group.streams.desk import StreamsClient, StreamsDesk

from odradek.group.streams.group import StreamsGroup, StreamsGroupState
from odradek.group.streams.tasks import pairs

SLOTS = st.integers(0, 4)
ROUNDS = 20


class Threads(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.desk = StreamsDesk()
        self.clients = [
            StreamsClient("A", "p"),
            StreamsClient("B", "p"),
            StreamsClient("C", "q"),
            StreamsClient("D", "r", "i"),
            StreamsClient("E", "q", "j"),
        ]
        self.partitions = 4
        self.renamed = 0

    @rule(slot=SLOTS)
    def beat(self, slot: int) -> None:
        self.clients[slot].beat(self.desk)

    @rule(slot=SLOTS)
    def lose_the_answer(self, slot: int) -> None:
        """The coordinator goes on, and the client does not know."""
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, client.epoch, client.active, client.standby, instance_id=client.instance)
            client.forget()

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, -1, instance_id=client.instance)
            client.forget()

    @rule(slot=st.integers(3, 4))
    def restart(self, slot: int) -> None:
        """A static member goes for a while, and comes back under another id."""
        client = self.clients[slot]
        if client.epoch > 0:
            self.desk.beat(client.member_id, -2, instance_id=client.instance)
            client.forget()
            self.renamed += 1
            client.member_id = f"{client.instance}{self.renamed}"

    @rule(standbys=st.integers(0, 2))
    def keep_copies(self, standbys: int) -> None:
        self.desk.settings = replace(self.desk.settings, num_standby_replicas=standbys)

    @rule()
    def grow(self) -> None:
        if self.partitions < 6:
            self.partitions += 1
            self.desk.set_topics(orders=self.partitions, store=self.partitions)

    @rule()
    def fail_over(self) -> None:
        before = self.desk.machine.durable_state()
        self.desk.fail_over()
        assert before == self.desk.machine.durable_state()

    @rule(milliseconds=st.sampled_from([1_000, 20_000, 45_000]))
    def wait(self, milliseconds: int) -> None:
        """Whoever is dropped meanwhile has noticed that it could not report, and has stopped its tasks."""
        self.desk.sleep(milliseconds)
        group = self.group
        for client in self.clients:
            if group is None or client.member_id not in group.members:
                client.forget()

    @rule()
    def settle(self) -> None:
        """Everybody reports until nothing changes: each task runs, and each has the copies that there is room for."""
        for _ in range(ROUNDS):
            for client in self.clients:
                client.beat(self.desk)
        group = self.group
        assert group is not None
        assert group.state is StreamsGroupState.STABLE, group.durable_state()
        running = Counter(task for client in self.clients for task in client.active)
        assert running == {f"0_{index}": 1 for index in range(self.partitions)}
        copies = Counter(task for client in self.clients for task in client.standby)
        # There are three processes, and one of them runs the task.
        assert set(copies.values()) <= {min(2, self.desk.settings.num_standby_replicas)}
        loads = [len(client.active) for client in self.clients]
        assert max(loads) - min(loads) <= 1 or self.desk.settings.num_standby_replicas

    @property
    def group(self) -> StreamsGroup | None:
        group = self.desk.machine._groups.get("g")
        assert group is None or isinstance(group, StreamsGroup)
        return group

    @invariant()
    def no_task_runs_twice(self) -> None:
        running = Counter(task for client in self.clients for task in client.active)
        assert not running or max(running.values()) == 1, running

    @invariant()
    def what_is_held_is_counted(self) -> None:
        group = self.group
        if group is None:
            return
        held = [
            (task, member.process_id)
            for member in group.members.values()
            for each in (member.assigned, member.revoking)
            for task in pairs(each.active)
        ]
        assert dict(held) == group._active
        assert len(dict(held)) == len(held)
        copies = [
            (*task, member.process_id)
            for member in group.members.values()
            for each in (member.assigned, member.revoking)
            for task in pairs(each.standby)
        ]
        assert Counter(copies) == group._standby
        assert max(Counter(copies).values(), default=1) == 1, "a process keeps one copy"


Threads.TestCase.settings = examples(50, steps=30)
TestThreads = Threads.TestCase
