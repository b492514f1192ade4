"""Members come and go, commit and fall silent in any order; whatever happens, some things hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.unit.group.desk import SESSION_MS, Desk, error_of

from odradek.core.machine import Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import GONE
from odradek.group.classic.states import GroupState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse

REBALANCE_MS = 20_000
SLOTS = st.integers(0, 3)
"""Clients; each is at most one member at a time, and the last two have instance ids."""


class Client:
    """What a client knows: its id, its generation, and the request that it waits for."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.joined: JoinGroupResponse | None = None
        self.synced = False
        self.waits: Any = None


class Groups(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3_000]), limit=st.sampled_from([2, 100]))
    def begin(self, delay: int, limit: int) -> None:
        self.desk = Desk(group_initial_rebalance_delay_ms=delay, group_max_size=limit, offsets_retention_minutes=5)
        self.clients = [Client(None), Client(None), Client("three"), Client("four")]
        self.seen: ClassicGroup | None = None
        self.generation = 0

    @property
    def group(self) -> ClassicGroup | None:
        group = self.desk.machine._groups.get("g")
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def hear(self) -> None:
        """Give every client the answer to what it waited for."""
        for client in self.clients:
            if client.waits is not None and client.waits in self.desk.replies:
                reply, client.waits = self.desk.replies[client.waits], None
                self.take(client, reply)

    def take(self, client: Client, outcome: Any) -> None:
        match outcome:
            case tuple():
                client.waits = outcome
            case JoinGroupResponse(error_code=0 | ErrorCode.MEMBER_ID_REQUIRED):
                client.member_id = outcome.member_id
                client.joined = outcome if outcome.error_code == 0 else None
                client.synced = False
            case SyncGroupResponse(error_code=0):
                client.synced = True
            case Refused() | JoinGroupResponse() | SyncGroupResponse():
                if error_of(outcome) != ErrorCode.REBALANCE_IN_PROGRESS:
                    client.member_id = ""
                client.joined = None

    def join(self, client: Client, *, version: int = 9, **subscribed: Any) -> None:
        client.waits = client.joined = None
        outcome = self.desk.join(
            client.member_id, instance=client.instance, version=version, rebalance_ms=REBALANCE_MS, **subscribed
        )
        self.take(client, outcome)

    def sync(self, client: Client, *, complete: bool = True) -> None:
        joined = client.joined
        assert joined is not None
        members = [member.member_id for member in joined.members]
        assignments = {member_id: member_id.encode() for member_id in members if complete or member_id != members[0]}
        self.take(client, self.desk.sync(joined, assignments, instance=client.instance, protocol=joined.protocol_name))

    def heartbeat(self, client: Client) -> None:
        assert client.joined is not None
        error = self.desk.heartbeat(client.member_id, client.joined.generation_id, instance=client.instance)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            client.joined = None
        elif error:
            client.member_id, client.joined = "", None

    def proceed(self, client: Client) -> None:
        """What a consumer does next."""
        if client.waits is None:
            if client.joined is None:
                self.join(client)
            elif not client.synced:
                self.sync(client)
            else:
                self.heartbeat(client)
        self.hear()

    # ------------------------------------------------------------------ what happens

    @rule(slot=SLOTS, times=st.integers(1, 4))
    def one_goes_on(self, slot: int, times: int) -> None:
        for _ in range(times):
            self.proceed(self.clients[slot])

    @rule(count=st.integers(2, 4), rounds=st.integers(1, 6))
    def some_go_on(self, count: int, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.clients[:count]:
                self.proceed(client)

    @rule(count=st.integers(2, 4))
    def some_live_on(self, count: int) -> None:
        for _ in range(6):
            self.desk.sleep(SESSION_MS // 2)
            self.hear()
            for client in self.clients[:count]:
                self.proceed(client)

    @rule(
        slot=SLOTS,
        version=st.sampled_from([3, 5, 9]),
        protocols=st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("other",)]),
        topics=st.sampled_from([("orders",), ("refunds",)]),
    )
    def joins_otherwise(self, slot: int, version: int, protocols: tuple[str, ...], topics: tuple[str, ...]) -> None:
        self.join(self.clients[slot], version=version, protocols=protocols, topics=topics)
        self.hear()

    @rule(slot=SLOTS)
    def restarts(self, slot: int) -> None:
        self.clients[slot] = Client(self.clients[slot].instance)

    @rule(slot=SLOTS)
    def assigns_carelessly(self, slot: int) -> None:
        client = self.clients[slot]
        if client.joined is not None and client.waits is None:
            self.sync(client, complete=False)
        self.hear()

    @rule(slot=SLOTS, by_instance=st.booleans())
    def leave(self, slot: int, by_instance: bool) -> None:
        client = self.clients[slot]
        if client.instance is not None and by_instance:
            self.desk.leave(instances=[client.instance])
        elif client.member_id:
            self.desk.leave(client.member_id)
        self.hear()

    @rule(slot=SLOTS)
    def hang_up(self, slot: int) -> None:
        client = self.clients[slot]
        if client.waits is not None:
            self.desk.waiting.discard(client.waits)
            self.desk.machine.abandoned(client.waits)
            self.clients[slot] = Client(client.instance)

    @rule(
        slot=SLOTS, transactional=st.booleans(), offset=st.integers(0, 99), topic=st.sampled_from(["orders", "refunds"])
    )
    def commit(self, slot: int, transactional: bool, offset: int, topic: str) -> None:
        client = self.clients[slot]
        generation = -1 if client.joined is None else client.joined.generation_id
        commit = self.desk.txn_commit if transactional else self.desk.commit
        commit(offset, topic=topic, member_id=client.member_id, generation=generation)

    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        self.desk.end_transaction(7, commit=commit)

    @rule(milliseconds=st.sampled_from([1, 3_000, 3_000, SESSION_MS // 2, SESSION_MS, REBALANCE_MS, 600_000]))
    def sleep(self, milliseconds: int) -> None:
        self.desk.sleep(milliseconds)
        self.hear()

    @precondition(lambda self: self.desk.log)
    @rule()
    def fail_over(self) -> None:
        self.desk.fail_over()
        for client in self.clients:
            client.waits = None

    # ------------------------------------------------------------------ what holds

    @invariant()
    def a_group_with_members_has_one_leader_of_them(self) -> None:
        group = self.group
        if group is not None:
            assert (group.leader in group.members) if group.members else group.leader is None
            assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
            assert set(group.static_members.values()) == {
                member.member_id for member in group.members.values() if member.is_static
            }

    @invariant()
    def generations_grow(self) -> None:
        group = self.group
        if group is not None and group is self.seen:
            assert group.generation >= self.generation
        self.seen = group
        self.generation = 0 if group is None else group.generation

    @invariant()
    def the_selected_protocol_is_one_that_every_member_supports(self) -> None:
        group = self.group
        if group is not None and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert group.protocol is not None
            assert all(member.supports(group.protocol) for member in group.members.values())

    @invariant()
    def who_waits_is_a_member_that_the_group_will_answer(self) -> None:
        group = self.group
        held = set()
        if group is not None:
            for member in group.members.values():
                held |= {token for token in (member.join, member.sync) if token is not None and token is not GONE}
        assert held == self.desk.waiting

    @invariant()
    def joins_wait_only_while_a_rebalance_is_prepared_and_syncs_only_while_it_is_completed(self) -> None:
        group = self.group
        if group is not None:
            joining = any(member.join is not None for member in group.members.values())
            syncing = any(member.sync is not None for member in group.members.values())
            assert not joining or group.state is GroupState.PREPARING_REBALANCE
            assert not syncing or group.state is GroupState.COMPLETING_REBALANCE

    @invariant()
    def every_member_has_an_end_or_waits_for_one(self) -> None:
        group = self.group
        if group is not None:
            for member in group.members.values():
                assert member.deadline is not None or member.satisfied

    @invariant()
    def the_log_alone_gives_the_same_durable_state(self) -> None:
        replayed = self.desk.new_machine()
        for batch in self.desk.log:
            replayed.apply(batch)
        assert replayed.durable_state() == self.desk.machine.durable_state()

    def teardown(self) -> None:
        """When nobody says anything more, everybody who waits is answered and the group empties."""
        if not hasattr(self, "desk"):
            return
        self.desk.sleep(20 * 60_000)
        assert set() == self.desk.waiting
        self.desk.end_transaction(7, commit=False)
        self.desk.sleep(30 * 60_000)
        assert "Dead" == self.desk.state()
        assert {} == self.desk.fetch_all()


TestGroups = Groups.TestCase
TestGroups.settings = examples(60, steps=40)
TestGroups = pytest.mark.slow(TestGroups)
