"""The fold of a watch over looks that were written by hand, and the order of the questions in a look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek_pipeline.watch.brokers import Brokers, Layout, OpenProducer, Partition, UnderWay
from odradek_pipeline.watch.look import Look, take_look
from odradek_pipeline.watch.names import Names, coordinator_of
from odradek_pipeline.watch.show import lines_of
from odradek_pipeline.watch.watcher import Incident, Memory, Watcher
from odradek_pipeline.watch.why import sentences

ORDERS, MORE, STATE = ("orders", 0), ("orders", 1), ("__transaction_state", 0)
BEGAN = 1_700_000_000_000
LAYOUT = Layout("c1", {1: "127.0.0.1:1", 2: "127.0.0.1:2"}, {ORDERS: (1, 0), MORE: (2, 0), STATE: (1, 4)})
SECOND = 1000


def opened(at: Partition = ORDERS, producer_id: int = 7, offset: int = 5, epoch: int = 0) -> OpenProducer:
    return OpenProducer(*at, producer_id, epoch, offset, BEGAN)


def under_way(state: str = "Ongoing", *partitions: Partition, start: int = BEGAN) -> UnderWay:
    return UnderWay("shop", 7, 0, state, start, 60_000, frozenset(partitions or (ORDERS,)))


def look(
    at: int,
    *,
    behind: Iterable[Partition] = (),
    who: Iterable[OpenProducer] = (),
    unknown: Iterable[OpenProducer] = (),
    running: Iterable[UnderWay] = (),
    **more: object,
) -> Look:
    wanted = frozenset(LAYOUT.leaders)
    high = dict.fromkeys(wanted, 9)
    stable = high | dict.fromkeys(behind, 5)
    plain = Look(
        BEGAN + at * SECOND, LAYOUT, wanted, high, stable, tuple(who), tuple(unknown), frozenset(behind),
        tuple(running), "", {},
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


class Watching:
    """A watcher and what it told."""

    def __init__(self, *, confirms: bool = True) -> None:
        self.watcher = Watcher("kafka:9092")
        self.names = Names(of_producer={7: "shop"})
        self.confirms = confirms
        self.asked: list[str] = []

    def see(self, seen: Look) -> list[tuple[str, str]]:
        return [
            (one.incident, "closed" if one.closed_ms >= 0 else "opened")
            for one in self.watcher.see(seen, self.names, self.confirm)
        ]

    def confirm(self, one: Incident) -> bool:
        self.asked.append(one.key)
        return self.confirms


HANGS = look(0, behind=[ORDERS], who=[opened()], unknown=[opened()])


def test_a_hanging_transaction_opens_once_and_closes_when_it_is_gone() -> None:
    watching = Watching()
    assert [("hanging-transaction", "opened")] == watching.see(HANGS)
    (one,) = watching.watcher.incidents
    assert "producer 7 (shop) hangs in orders-0 since offset 5" in one.what
    assert "4 offsets wait behind it" in one.blocks
    assert [
        "kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders --partition 0 --start-offset 5"
    ] == one.run
    assert [] == watching.see(replace(HANGS, at_ms=BEGAN + 60 * SECOND))  # nor a stall beside it: one cause
    assert [("hanging-transaction", "closed")] == watching.see(look(70))
    assert ([], True) == (watching.watcher.incidents, watching.watcher.ever_bad)


def test_one_transaction_in_two_partitions_is_one_incident_with_two_commands() -> None:
    watching = Watching()
    watching.see(HANGS)
    both = (opened(), opened(MORE, offset=3))
    assert [("hanging-transaction", "opened")] == watching.see(look(2, behind=[ORDERS, MORE], who=both, unknown=both))
    (one,) = watching.watcher.incidents
    assert 2 == len(one.run)
    assert BEGAN == one.opened_ms
    other = opened(offset=6, epoch=1)
    watching.see(look(4, behind=[ORDERS, MORE], who=[*both, other], unknown=[*both, other]))
    assert 2 == len(watching.watcher.incidents)


def test_no_command_is_given_that_the_brokers_deny() -> None:
    watching = Watching(confirms=False)
    assert [] == watching.see(HANGS)
    assert (["hanging-transaction 7 0"], []) == (watching.asked, watching.watcher.incidents)
    assert not watching.watcher.ever_bad


def test_what_may_be_under_way_elsewhere_does_not_hang() -> None:
    watching = Watching()
    assert [] == watching.see(replace(HANGS, doubts="127.0.0.1:2 does not answer"))
    assert [] == watching.asked
    watching.see(HANGS)
    assert [] == watching.see(replace(HANGS, doubts="127.0.0.1:2 does not answer"))  # nor is it over by that
    assert 1 == len(watching.watcher.incidents)


@pytest.mark.parametrize("missing", ["high", "stable", "told"])
def test_an_incident_outlasts_that_nobody_speaks_for_its_partition(missing: str) -> None:
    watching = Watching()
    watching.see(HANGS)
    blind: object = frozenset[Partition]() if missing == "told" else {}
    seen = replace(look(2, behind=[ORDERS]), **{missing: blind})  # type: ignore[arg-type]
    assert not seen.is_whole
    assert [] == watching.see(seen)


def test_a_deleted_topic_ends_its_incidents() -> None:
    watching = Watching()
    watching.see(HANGS)
    rest = Layout("c1", LAYOUT.addresses, {STATE: (1, 4)})
    gone = look(2, layout=rest, wanted=frozenset([STATE]), high={STATE: 9}, stable={STATE: 9})
    assert [("hanging-transaction", "closed")] == watching.see(gone)


def test_a_decision_without_its_markers() -> None:
    watching = Watching()
    prepared = look(0, behind=[ORDERS], who=[opened()], running=[under_way("PrepareCommit")])
    assert [] == watching.see(prepared)
    assert [("stuck-prepare", "opened")] == watching.see(replace(prepared, at_ms=BEGAN + 60 * SECOND))  # one cause
    (one,) = watching.watcher.incidents
    assert one.why.endswith(" at broker 1 (producer 7, epoch 0, orders-0): it waits for its marker in orders-0.")
    assert [] == watching.see(replace(look(62), doubts="moved"))
    assert [("stuck-prepare", "closed")] == watching.see(look(63))
    # A later decision of the same id begins anew.
    assert [] == watching.see(replace(prepared, at_ms=BEGAN + 100 * SECOND))


def test_a_transaction_beyond_its_timeout() -> None:
    watching = Watching()
    late = look(79, running=[under_way()])
    assert [] == watching.see(late)
    assert [("txn-timeout-exceeded", "opened")] == watching.see(replace(late, at_ms=BEGAN + 81 * SECOND))
    (one,) = watching.watcher.incidents
    assert (
        "Transaction shop is Ongoing for 81.0 s at broker 1 (producer 7, epoch 0, orders-0):"
        " if its producer does not end it, the coordinator aborts it now."
    ) == one.why
    assert [("txn-timeout-exceeded", "closed")] == watching.see(look(82))


def test_a_stall_names_its_holder_and_ends_when_the_offset_moves() -> None:
    watching = Watching()
    waiting = look(0, behind=[ORDERS], who=[opened()], running=[under_way()])
    assert [] == watching.see(waiting)
    assert [] == watching.see(replace(waiting, at_ms=BEGAN + 9 * SECOND))
    assert [("lso-stall", "opened")] == watching.see(replace(waiting, at_ms=BEGAN + 10 * SECOND))
    (one,) = watching.watcher.incidents
    assert ("info", "shop", BEGAN) == (one.severity, one.transactional_id, one.since_ms)
    assert (
        "Consumers (read_committed) of orders-0 stop at offset 5 of 9: shop is open there since 22:13:20.000 (10.0 s);"
        " its newest record there is 10.0 s old; if its producer does not end it, the coordinator aborts it in 50.0 s."
    ) == one.why
    assert f"  why: {one.why}" in lines_of(one)
    moved = replace(waiting, at_ms=BEGAN + 12 * SECOND, stable=dict(waiting.stable) | {ORDERS: 8})
    assert [("lso-stall", "closed")] == watching.see(moved)
    assert not watching.watcher.ever_bad


def test_brokers_that_are_away_and_partitions_without_a_leader() -> None:
    watching = Watching()
    leaders = {**LAYOUT.leaders, MORE: (-1, 3)}
    seen = look(0, layout=replace(LAYOUT, leaders=leaders), away={"127.0.0.1:2": "Connection refused"})
    seen = replace(seen, high={ORDERS: 9, STATE: 9})
    assert [("broker-away", "opened"), ("no-leader", "opened")] == sorted(watching.see(seen))
    assert [("broker-away", "closed"), ("no-leader", "closed")] == sorted(watching.see(look(2)))


def test_a_restart_goes_on_where_it_was() -> None:
    watching = Watching()
    watching.see(HANGS)
    written = msgspec.json.encode(watching.watcher.memory)
    again = Watching()
    again.watcher.memory = msgspec.json.decode(written, type=Memory)
    assert [] == again.see(replace(HANGS, at_ms=BEGAN + 30 * SECOND))
    assert [("hanging-transaction", "closed")] == again.see(look(40))


def test_a_run_that_sees_an_incident_end_was_bad_also_behind_a_restart() -> None:
    watching = Watching()
    watching.see(HANGS)
    again = Watching()
    again.watcher.memory = msgspec.json.decode(msgspec.json.encode(watching.watcher.memory), type=Memory)
    assert not again.watcher.ever_bad
    assert [("hanging-transaction", "closed")] == again.see(look(40))
    assert again.watcher.ever_bad
    assert [] == again.see(look(42))


# ---------------------------------------------------------------------- why

HANGING = "producer 7 has a transaction open there that no coordinator knows, so that it hangs"
ASKED_IN_PART = "producer 7 has a transaction open there, and not every coordinator could be asked"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (HANGS, HANGING),
        (replace(HANGS, doubts="moved"), f"{ASKED_IN_PART}: moved"),
        (
            look(0, behind=[ORDERS], who=[opened()], running=[under_way("PrepareAbort")]),
            "shop is PrepareAbort, and its marker is not written there yet",
        ),
        (
            look(0, behind=[ORDERS]),
            "no producer has a transaction open there any more; its marker may not be replicated yet",
        ),
        (
            look(0, behind=[ORDERS], told=frozenset()),
            "its leader did not say which producer has a transaction open there",
        ),
    ],
)
def test_why_consumers_stop(seen: Look, why: str) -> None:
    assert [f"Consumers (read_committed) of orders-0 stop at offset 5 of 9: {why}."] == list(sentences(seen))


def test_a_transaction_of_two_phase_commit_has_no_timeout() -> None:
    lasting = replace(under_way(), timeout_ms=2**31 - 1)
    [sentence] = sentences(look(3, behind=[ORDERS], who=[opened()], running=[lasting]))
    assert sentence.endswith("; it has no timeout, so that its producer alone ends it.")


def test_transactions_that_hold_nothing_back_are_told_behind_the_partitions() -> None:
    other = replace(under_way(), transactional_id="till", producer_id=8, partitions=frozenset())
    first, second = sentences(look(3, behind=[ORDERS], who=[opened()], running=[other, under_way()]))
    assert first.startswith("Consumers (read_committed) of orders-0 stop at offset 5 of 9: shop is open there ")
    assert second.startswith(
        "Transaction till is Ongoing for 3.0 s at broker 1 (producer 8, epoch 0, no partition yet)"
    )


def test_of_many_the_first_ten_are_told_and_topics_of_brokers_are_not() -> None:
    many = [("t", index) for index in range(12)]
    seen = replace(look(0), stable=dict.fromkeys([*many, STATE], 5), high=dict.fromkeys([*many, STATE], 9))
    *told, last = sentences(seen)
    assert 10 == len(told)
    assert "There is more to say of 2 partitions." == last
    assert not any("__transaction_state" in one for one in told)


# ---------------------------------------------------------------------- the order of the questions


class Scripted(Brokers):
    """Brokers that answer as they are told; the second question about producers may have another answer."""

    def __init__(self, first: list[OpenProducer], second: list[OpenProducer], running: list[UnderWay]) -> None:
        super().__init__("nowhere:1")
        self.answers = [first, second]
        self.running = running
        self.layouts = [LAYOUT, LAYOUT]
        self.order: list[str] = []

    def refresh(self) -> bool:
        self.order.append("layout")
        self.layout = self.layouts.pop(0)
        return True

    def ends(self, isolation: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        self.order.append("stable" if isolation else "high")
        return dict.fromkeys(partitions, 9) | ({ORDERS: 5} if isolation else {})

    def producers(self, partitions: Iterable[Partition]) -> tuple[list[OpenProducer], set[Partition]]:
        self.order.append("producers")
        return self.answers.pop(0), set(partitions)

    def under_way(self) -> tuple[list[UnderWay], str]:
        self.order.append("coordinators")
        return self.running, ""


def taken(brokers: Brokers) -> Look:
    found = take_look(brokers, BEGAN)
    assert found is not None
    return found


def test_what_ends_while_coordinators_are_asked_is_not_unknown() -> None:
    brokers = Scripted([opened()], [], [])
    found = taken(brokers)
    assert ((), ()) == (found.unknown, found.opened)
    assert ["layout", "high", "stable", "producers", "coordinators", "producers", "layout"] == brokers.order
    assert ((), ()) == (taken(Scripted([opened()], [opened(offset=6)], [])).unknown, ())


def test_what_stays_open_and_unknown_hangs() -> None:
    assert (opened(),) == taken(Scripted([opened()], [opened()], [])).unknown
    elsewhere = under_way("Ongoing", MORE)
    assert (opened(),) == taken(Scripted([opened()], [opened()], [elsewhere])).unknown
    assert () == taken(Scripted([opened()], [opened()], [under_way()])).unknown


def test_coordinators_that_move_meanwhile_leave_a_doubt() -> None:
    brokers = Scripted([opened()], [opened()], [])
    brokers.layouts[1] = replace(LAYOUT, leaders={**LAYOUT.leaders, STATE: (2, 5)})
    assert "moved" in taken(brokers).doubts
    brokers = Scripted([opened()], [opened()], [])
    brokers.layouts[0] = brokers.layouts[1] = replace(LAYOUT, leaders={**LAYOUT.leaders, STATE: (-1, 4)})
    assert "no leader" in taken(brokers).doubts


# ---------------------------------------------------------------------- names


def batch(*records: tuple[str, int, int] | str) -> bytes:
    made = []
    for one in records:
        name = one if isinstance(one, str) else one[0]
        value = None
        if not isinstance(one, str):
            state = TransactionLogValue(producer_id=one[1], client_transaction_version=one[2])
            value = encode_value(state, 1)
        made.append(Record(key=encode_key(TransactionLogKey(transactional_id=name)), value=value))
    return bytes(build_batch(made))


def test_names_and_levels_follow_the_coordinators_log() -> None:
    names = Names()
    assert 3 == names.add(batch(("a", 1, 0), ("b", 2, 2), ("a", 3, 2)))
    assert ({1: "a", 2: "b", 3: "a"}, {2: 2}) == (names.of_producer, names.levels())
    names.add(batch(("c", 4, 0), "b"))
    assert ({0: 1, 2: 1}, ["c"]) == (names.levels(), list(names.older()))
    assert 2 not in names.of_producer
    assert names.add(b"") is None
    assert (0, 1) == coordinator_of("anything", LAYOUT)
    assert (-1, -1) == coordinator_of("anything", Layout("", {}, {}))
