"""The tests of the suite as data: a name, the play that the client programs know, its arguments, and what it checks."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["CASES", "PLAYS", "Case"]

Value = int | str

PLAYS = {
    "roundtrip": "a producer writes; a consumer without a group reads each record, in order and unchanged",
    "missing": "the same with a topic that nobody has created",
    "resume": "a member reads and commits; more is written; the next member reads exactly that",
    "waiting": "a consumer waits before each record is written, and reads it",
    "commit": "transactions of one producer; read_committed reads all of them, in order",
    "abort": "every second transaction is aborted; read_committed reads the others, read_uncommitted reads all",
    "copy": "consume, transform, produce: each record comes out once, and the offsets are committed behind the last",
    "rebalance": "a group of three shares six partitions and reads all; one leaves, and two do the same",
    "fence": "a second producer with the transactional id: the commit of the first is refused, its records are aborted",
    "topics": "admin: create, describe, configure, add partitions, delete",
    "records": "admin: first and last offsets, before and after records are deleted",
    "groups": "admin: offsets are committed for a group, which is listed and told them",
}


@dataclass(frozen=True)
class Case:
    """One test. Its arguments are those of its play."""

    name: str
    play: str
    arguments: dict[str, Value]


def cases(play: str, **values: Sequence[Value]) -> Iterator[Case]:
    """One test for each combination of the values."""
    for chosen in itertools.product(*values.values()):
        arguments = dict(zip(values, chosen, strict=True))
        told = [f"{name} {value}" for name, value in arguments.items()]
        yield Case(", ".join([play, *told]), play, arguments)


CASES = [
    *cases("roundtrip", partitions=[1, 3], records=[1, 10, 1000], bytes=[20, 1000], compression=["none", "gzip"]),
    *cases("missing", partitions=[1], records=[1, 10], bytes=[100], compression=["none", "gzip"]),
    *cases("resume", partitions=[1, 3], records=[1, 10, 100], bytes=[20, 1000]),
    *cases("waiting", partitions=[1], records=[1, 5], bytes=[20, 1000]),
    *cases("commit", partitions=[1, 3], transactions=[1, 5], records=[1, 10], bytes=[20, 1000]),
    *cases("abort", partitions=[1, 3], transactions=[2, 5], records=[1, 10], bytes=[20, 1000]),
    *cases("copy", partitions=[1, 3], transactions=[1, 4], records=[1, 10]),
    *cases("rebalance", partitions=[6], records=[6, 12, 60, 300]),
    *cases("fence", partitions=[1, 3], records=[1, 10]),
    *cases("topics", partitions=[1, 3, 6]),
    *cases("records", partitions=[1, 3, 6], records=[10]),
    *cases("groups", partitions=[1, 3]),
]
