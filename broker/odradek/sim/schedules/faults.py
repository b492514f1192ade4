"""The faults of requests that a workload can draw, as rules (docs/rules.md), each by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from odradek.faults.model import Rule
from odradek.faults.one_line import rule

__all__ = ["RULES", "SLOWED_MARKERS_MAX_MS", "slowed_markers_ms", "told"]

Draw = Callable[[Random, int], Rule]
"""Makes a rule, from dice and the id of a broker."""

SLOWED_MARKERS_MS = 1_000
"""The longest delay of markers by one rule. A coordinator waits two seconds before it sends again (`Run`)."""
SLOWED_MARKERS_MAX_MS = 1_600
"""The longest delay by all rules together that apply at one time."""

CONTROLLER = 1
"""The id of the controller at the start of every run."""
ANSWERED = (
    "WRITE_TXN_MARKERS",
    "ADD_PARTITIONS_TO_TXN",
    "ADD_OFFSETS_TO_TXN",
    "PRODUCE",
    "TXN_OFFSET_COMMIT",
    "END_TXN",
    "INIT_PRODUCER_ID",
)


def _lose_requests(dice: Random, broker: int) -> Rule:
    api = dice.choice(("WRITE_TXN_MARKERS", "ADD_PARTITIONS_TO_TXN", "PRODUCE"))
    return rule(api, broker=broker, disconnect="before", times=dice.randint(1, 3))


def _lose_answers(dice: Random, broker: int) -> Rule:
    return rule(dice.choice(ANSWERED), broker=broker, disconnect="after", times=dice.randint(1, 3))


def _delay_requests(dice: Random, broker: int) -> Rule:
    # A Produce that is delayed for longer than its client waits is the late message of KIP-890. KIP-890 does not
    # cover other late requests of an older client, which only the epoch could tell from those of its next
    # transaction: they are left out. A Produce is told apart by its sequence as well.
    api, sender, versions = dice.choice(
        (("ADD_PARTITIONS_TO_TXN", "broker", None), ("PRODUCE", "any", None), ("TXN_OFFSET_COMMIT", "any", "5+"))
    )
    delay_ms = dice.choice((20, 200, 4_000))
    times = dice.randint(1, 3)
    return rule(api, broker=broker, delay_ms=delay_ms, times=times, sender=sender, versions=versions)


def _lose_answers_of_records(dice: Random, broker: int) -> Rule:
    return rule("PRODUCE", broker=broker, disconnect="after", times=dice.randint(1, 8))


def _lose_answers_of_coordinators(dice: Random, broker: int) -> Rule:
    api = dice.choice(("END_TXN", "END_TXN", "INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"))
    return rule(api, broker=broker, disconnect="after", times=dice.randint(1, 5))


def _delay_answers_of_records(dice: Random, broker: int) -> Rule:
    # Several batches are written, and their client sends all of them again.
    delay_ms = dice.choice((60, 300, 3_500))
    return rule("PRODUCE", broker=broker, answer_delay_ms=delay_ms, times=dice.randint(1, 6))


def _delay_verdicts(dice: Random, broker: int) -> Rule:
    # The leader may learn that a transaction is open when it is over and its markers are written.
    delay_ms = dice.choice((30, 100, 300, 1_000))
    return rule(
        "ADD_PARTITIONS_TO_TXN", broker=broker, answer_delay_ms=delay_ms, times=dice.randint(1, 4), sender="broker"
    )


def _delay_records(dice: Random, broker: int) -> Rule:
    return rule("PRODUCE", broker=broker, delay_ms=dice.choice((60, 200, 800)), times=dice.randint(2, 5))


def _delay_records_for_long(dice: Random, broker: int) -> Rule:
    # Longer than some workloads keep idle transactional ids and producers.
    return rule("PRODUCE", broker=broker, delay_ms=dice.choice((900, 1_800, 3_000)), times=dice.randint(1, 3))


def _delay_proposals(dice: Random, broker: int) -> Rule:
    # Proposals of leaders for the in-sync replicas; a late one must not undo a newer change.
    delay_ms = dice.choice((50, 300, 1_200))
    return rule("ALTER_PARTITION", broker=CONTROLLER, delay_ms=delay_ms, times=dice.randint(1, 4))


def _delay_states(dice: Random, broker: int) -> Rule:
    # State writes of share partitions: their leader may have a successor when one arrives.
    delay_ms = dice.choice((50, 200, 600))
    return rule("WRITE_SHARE_GROUP_STATE", broker=broker, delay_ms=delay_ms, times=dice.randint(1, 4))


def _lose_verdicts(dice: Random, broker: int) -> Rule:
    lost = dice.choice(("before", "after"))
    return rule("ADD_PARTITIONS_TO_TXN", broker=broker, disconnect=lost, times=dice.randint(1, 4), sender="broker")


def _delay_acknowledgements(dice: Random, broker: int) -> Rule:
    # By then the partition has another leader, which has acknowledged the same marker.
    delay_ms = dice.choice((100, 400, 1_200))
    return rule("WRITE_TXN_MARKERS", broker=broker, answer_delay_ms=delay_ms, times=dice.randint(1, 4))


def _refuse_records(dice: Random, broker: int) -> Rule:
    # As a leader with too few replicas in sync for a moment: later batches are not refused.
    return rule("PRODUCE", broker=broker, error="NOT_ENOUGH_REPLICAS", times=dice.randint(1, 3))


def _delay_markers(dice: Random, broker: int) -> Rule:
    # All delays on one connection together stay below the coordinator's timeout. After a second marker an older
    # client may have its next transaction open, with the same epoch, and a late marker would end that one.
    delay_ms, times = dice.choice((50, 200, 800)), dice.randint(1, 6)
    return rule("WRITE_TXN_MARKERS", broker=broker, delay_ms=delay_ms, times=min(times, SLOWED_MARKERS_MS // delay_ms))


def slowed_markers_ms(fault: Rule) -> int:
    """Milliseconds by which a rule delays markers on a connection; 0 if it does not apply to markers."""
    if fault.match.api != "WRITE_TXN_MARKERS":
        return 0
    times = fault.when.times
    return fault.act.delay_ms * (times if isinstance(times, int) else 1)


def _repeat_requests(dice: Random, broker: int) -> Rule:
    api, versions = dice.choice((("PRODUCE", None), ("WRITE_TXN_MARKERS", None), ("END_TXN", "5+")))
    return rule(api, broker=broker, duplicate=True, times=dice.randint(1, 4), versions=versions)


def _lose_lookups(dice: Random, broker: int) -> Rule:
    api = dice.choice(("FIND_COORDINATOR", "METADATA"))
    return rule(api, broker=broker, disconnect=dice.choice(("before", "after")), times=dice.randint(1, 6))


def _delay_lookups(dice: Random, broker: int) -> Rule:
    # The answer is out of date when it arrives.
    api, delay_ms = dice.choice(("FIND_COORDINATOR", "METADATA")), dice.choice((30, 200, 700, 1_500))
    return rule(api, broker=broker, answer_delay_ms=delay_ms, times=dice.randint(1, 6))


RULES: Mapping[str, Draw] = MappingProxyType(
    {
        "lose requests": _lose_requests,
        "lose answers": _lose_answers,
        "lose answers of records": _lose_answers_of_records,
        "lose answers of coordinators": _lose_answers_of_coordinators,
        "delay answers of records": _delay_answers_of_records,
        "delay requests": _delay_requests,
        "delay records": _delay_records,
        "delay records for long": _delay_records_for_long,
        "delay proposals": _delay_proposals,
        "delay states": _delay_states,
        "delay verdicts": _delay_verdicts,
        "lose verdicts": _lose_verdicts,
        "delay acknowledgements": _delay_acknowledgements,
        "refuse records": _refuse_records,
        "delay markers": _delay_markers,
        "repeat requests": _repeat_requests,
        "lose lookups": _lose_lookups,
        "delay lookups": _delay_lookups,
    }
)


def told(fault: Rule) -> str:
    """A rule in a few words, for example `broker 2: the next 3 PRODUCE: delay_ms 800`."""
    act = fault.act
    acts = " and ".join(f"{name} {getattr(act, name)}" for name in sorted(act.given)) or "counted"
    where = "every broker" if fault.match.broker is None else f"broker {fault.match.broker}"
    which = "each" if fault.times is None else "the next" if fault.times == 1 else f"the next {fault.times}"
    return f"{where}: {which} {fault.match.api}: {acts}"
