"""Damaged directories with a compacted topic: see `compacted.py` for the log, and `damage.py` for the rows.

`python -m tests.swap.damage_compacted record [NAME …]` and `look [NAME …]` do what they do there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.swap.compacted import BASES, END, PASSES, file_of, make_compacted, make_empty_compacted, soon
from tests.swap.damages import (
    CLEAN,
    CLEANED,
    EPOCHS,
    MARKS,
    RECOVERY,
    STARTS_AT,
    Damage,
    added,
    all_of,
    checkpoint,
    copied,
    flipped,
    garbage,
    half,
    killed,
    nothing,
    renamed,
    rewritten,
    without,
    zeros,
)
from tests.swap.outcomes import FOLDER, LOOKED_FOR, ORDERS, OTHER, STARTS, Answer, Seen
from tests.swap.tables import Case, Table, main

from odradek.log.files.indexes import write_offset_index, write_time_index
from odradek.log.files.names import segment_file
from odradek.records.batch import batches

__all__ = ["TABLE"]

RECORDED = Path(__file__).with_suffix(".json")
INDEXES = (".index", ".timeindex", ".txnindex")
RENAMES = {"one segment": 12, "two segments into one": 15, "one segment into two": 15}


def lacking(*offsets: int) -> Callable[[bytes], bytes]:
    """The batches at these offsets are cut out."""

    def change(data: bytes) -> bytes:
        return b"".join(bytes(each.view) for each in batches(memoryview(data)) if each.base_offset not in offsets)

    return change


def died(damage: Damage) -> Damage:
    """The same after a kill, with the recovery points of before: everything is on the device."""
    return all_of(without(CLEAN), damage)


def segment_gone(*bases: int) -> Damage:
    def damage(path: Path) -> None:
        for base in bases:
            for found in (path / FOLDER).glob(segment_file(base, ".*")):
                found.unlink()

    return damage


def joined(base: int, following: int) -> Damage:
    """The first segment has the batches of the other one, too."""
    return lambda path: rewritten(file_of(base), lambda data: data + (path / file_of(following)).read_bytes())(path)


def output(name: str, state: str, *, suffixes: tuple[str, ...] = (".log", *INDEXES), cut: int = 0) -> Damage:
    """Files of a pass in this state, and none of the others; the batches lack their last bytes."""

    def damage(path: Path) -> None:
        folder = path / FOLDER
        PASSES[name].write(folder)
        for file in list(folder.glob("*.cleaned")):
            if Path(file.stem).suffix not in suffixes:
                file.unlink()
                continue
            if file.stem.endswith(".log") and cut:
                file.write_bytes(file.read_bytes()[:-cut])
            file.rename(file.with_suffix(state))

    return damage


def interrupted() -> Iterator[tuple[str, Case]]:
    for name, steps in RENAMES.items():
        for step in range(steps + 1):
            yield f"a pass that makes {name} ends after {step} of {steps} renames", Case(died(PASSES[name].after(step)))


OLD_INDEX = write_offset_index(0, [(1, 300_072), (2, 600_144)])
"""That of the first segment before it was cleaned; there is one batch now."""
OLD_TIMES = write_time_index(0, [(2**41, 0), (2**41 + 1, 2)])

CASES: Mapping[str, Case] = {
    "nothing": Case(lambda _: None),
    "nothing, after a kill": Case(killed(lambda _: None)),
    # Holes.
    "a batch is cut out of a segment": Case(rewritten(file_of(6), lacking(7))),
    "a batch is cut out of a segment, after a kill": Case(killed(rewritten(file_of(6), lacking(7)))),
    "a batch is cut out of a segment with its index": Case(
        all_of(rewritten(file_of(6), lacking(7)), without(file_of(6, ".index"), file_of(6, ".timeindex")))
    ),
    "the first batch of a segment is cut out": Case(rewritten(file_of(3), lacking(3))),
    "the last batch of a segment is cut out": Case(rewritten(file_of(3), lacking(5))),
    "the last batch of a segment is cut out, after a kill": Case(killed(rewritten(file_of(3), lacking(5)))),
    "all batches of a segment are cut out": Case(rewritten(file_of(3), nothing)),
    "all batches of a segment are cut out with its indexes": Case(
        all_of(*(rewritten(file_of(3, each), nothing) for each in (".log", ".index", ".timeindex")))
    ),
    "all batches of a segment are cut out, after a kill": Case(killed(rewritten(file_of(3), nothing))),
    "the marker of an aborted transaction is cut out": Case(rewritten(file_of(6), lacking(10))),
    "the records of an aborted transaction are cut out": Case(rewritten(file_of(6), lacking(9))),
    "an aborted transaction is cut out": Case(rewritten(file_of(6), lacking(9, 10))),
    "an aborted transaction is cut out, after a kill": Case(killed(rewritten(file_of(6), lacking(9, 10)))),
    "a batch is cut out of the last segment": Case(rewritten(file_of(14), lacking(14))),
    "a batch is cut out of the last segment, after a kill": Case(killed(rewritten(file_of(14), lacking(14)))),
    "the last batch is cut out": Case(rewritten(file_of(14), lacking(15))),
    "the last batch is cut out, after a kill": Case(killed(rewritten(file_of(14), lacking(15)))),
    "no first segment": Case(segment_gone(0)),
    "no cleaned segment": Case(segment_gone(3)),
    "no cleaned segment, after a kill": Case(killed(segment_gone(3))),
    "no dirty segment": Case(segment_gone(6)),
    "no last segment": Case(segment_gone(14)),
    "a segment under an offset in a hole": Case(
        all_of(*(renamed(file_of(3, each), file_of(2, each)) for each in (".log", ".index", ".timeindex")))
    ),
    "two segments are one": Case(
        all_of(joined(0, 3), segment_gone(3), without(file_of(0, ".index"), file_of(0, ".timeindex")))
    ),
    "a byte has changed in a cleaned segment": Case(rewritten(file_of(0), flipped)),
    "a byte has changed in a cleaned segment, after a kill": Case(killed(rewritten(file_of(0), flipped))),
    "half a batch at the end of a cleaned segment": Case(rewritten(file_of(3), lambda data: data[:-100])),
    "half a batch at the end of a cleaned segment, after a kill": Case(
        killed(rewritten(file_of(3), lambda data: data[:-100]))
    ),
    # Indexes.
    "the offset index of before the pass": Case(added(file_of(0, ".index"), OLD_INDEX)),
    "the offset index of before the pass, after a kill": Case(killed(added(file_of(0, ".index"), OLD_INDEX))),
    "the time index of before the pass": Case(added(file_of(0, ".timeindex"), OLD_TIMES)),
    "the time index of before the pass, after a kill": Case(killed(added(file_of(0, ".timeindex"), OLD_TIMES))),
    "an offset index names an offset in a hole": Case(
        added(file_of(3, ".index"), write_offset_index(3, [(4, 300_072), (5, 300_072)]))
    ),
    "an offset index names an offset behind its segment": Case(
        added(file_of(0, ".index"), write_offset_index(0, [(2, 0)]))
    ),
    "an offset index is of the next segment": Case(copied(file_of(6, ".index"), file_of(3, ".index"))),
    "a time index is of the next segment": Case(copied(file_of(6, ".timeindex"), file_of(3, ".timeindex"))),
    "a cleaned segment has no indexes": Case(without(file_of(3, ".index"), file_of(3, ".timeindex"))),
    "a cleaned segment has no indexes, after a kill": Case(
        killed(without(file_of(3, ".index"), file_of(3, ".timeindex")))
    ),
    "the indexes of a cleaned segment are empty": Case(
        all_of(*(rewritten(file_of(3, each), nothing) for each in (".index", ".timeindex")))
    ),
    "the indexes of a cleaned segment are zeros": Case(
        all_of(*(rewritten(file_of(3, each), zeros) for each in (".index", ".timeindex")))
    ),
    "the indexes of a cleaned segment are garbage": Case(
        all_of(*(rewritten(file_of(3, each), garbage) for each in (".index", ".timeindex")))
    ),
    "no transaction index": Case(without(file_of(6, ".txnindex"))),
    "a transaction index beside the cleaned segment": Case(copied(file_of(6, ".txnindex"), file_of(3, ".txnindex"))),
    # Beside the segments.
    "a snapshot of producers in a hole": Case(copied(file_of(6, ".snapshot"), file_of(2, ".snapshot"))),
    "no snapshot of producers": Case(without(*(file_of(base, ".snapshot") for base in (*BASES[1:], END)))),
    "no snapshot of producers, after a kill": Case(
        killed(without(*(file_of(base, ".snapshot") for base in (*BASES[1:], END))))
    ),
    "leader epochs begin in a hole": Case(added(EPOCHS, b"0\n2\n0 0\n1 2\n")),
    "leader epochs begin in a hole, after a kill": Case(killed(added(EPOCHS, b"0\n2\n0 0\n1 2\n"))),
    "a log start in a hole": Case(checkpoint(STARTS_AT, (ORDERS, 2))),
    "a log start in a hole, after a kill": Case(killed(checkpoint(STARTS_AT, (ORDERS, 2)))),
    "a log start behind the cleaned part": Case(checkpoint(STARTS_AT, (ORDERS, 8))),
    "a high watermark in a hole": Case(checkpoint(MARKS, (ORDERS, 2), (OTHER, 2))),
    "a recovery point in a hole, after a kill": Case(
        all_of(without(CLEAN), checkpoint(RECOVERY, (ORDERS, 2), (OTHER, 2)))
    ),
    # Files of a pass that ended at each of its steps.
    **dict(interrupted()),
    # Files of a pass that no end leaves.
    "an output without its indexes": Case(died(output("one segment", ".swap", suffixes=(".log",)))),
    "an output without its indexes, after a clean stop": Case(output("one segment", ".swap", suffixes=(".log",))),
    "the indexes of an output without its batches": Case(died(output("one segment", ".swap", suffixes=INDEXES))),
    "an output that is empty": Case(died(all_of(added(f"{file_of(6)}.swap", b"")))),
    "an output that is cut off": Case(died(output("one segment", ".swap", cut=100))),
    "an output that is cut off before its swap": Case(died(output("one segment", ".cleaned", cut=100))),
    "an output that is garbage": Case(
        died(all_of(output("one segment", ".swap"), rewritten(f"{file_of(6)}.swap", garbage)))
    ),
    "an output whose index is garbage": Case(
        died(all_of(output("one segment", ".swap"), rewritten(f"{file_of(6, '.index')}.swap", garbage)))
    ),
    "an output whose index is cut off": Case(
        died(all_of(output("one segment", ".swap"), rewritten(f"{file_of(6, '.index')}.swap", half)))
    ),
    "an output before its swap, and a later one behind it": Case(
        died(all_of(output("one segment into two", ".swap"), output("one segment", ".cleaned")))
    ),
    "an output, and a later one before its swap": Case(
        died(all_of(output("one segment", ".swap"), output("one segment into two", ".cleaned")))
    ),
    "an output in the middle of a segment": Case(
        died(
            all_of(
                copied(file_of(14), f"{file_of(12)}.swap"),
                copied(file_of(14, ".index"), f"{file_of(12, '.index')}.swap"),
            )
        )
    ),
    "an output that is its input": Case(
        died(
            all_of(*(copied(file_of(3, each), f"{file_of(3, each)}.swap") for each in (".log", ".index", ".timeindex")))
        )
    ),
    "the last segment is an output": Case(
        died(
            all_of(
                *(renamed(file_of(14, each), f"{file_of(14, each)}.swap") for each in (".log", ".index", ".timeindex"))
            )
        )
    ),
    "the last segment is an output before its swap": Case(
        died(
            all_of(
                *(
                    copied(file_of(14, each), f"{file_of(14, each)}.cleaned")
                    for each in (".log", ".index", ".timeindex")
                )
            )
        )
    ),
    "only its own snapshot is on its way out": Case(
        renamed(file_of(6, ".snapshot"), f"{file_of(6, '.snapshot')}.deleted")
    ),
    # The cleaner goes on.
    "the cleaner goes on": Case(soon, settles=True),
    "no compacted offsets": Case(all_of(soon, without(CLEANED)), settles=True),
    "a compacted offset behind the end": Case(all_of(soon, checkpoint(CLEANED, (ORDERS, 99))), settles=True),
    "a compacted offset at the end": Case(all_of(soon, checkpoint(CLEANED, (ORDERS, END))), settles=True),
    "a compacted offset at the last segment": Case(all_of(soon, checkpoint(CLEANED, (ORDERS, 14))), settles=True),
    "a compacted offset of an earlier pass": Case(all_of(soon, checkpoint(CLEANED, (ORDERS, 3))), settles=True),
    "a compacted offset in a hole": Case(all_of(soon, checkpoint(CLEANED, (ORDERS, 2))), settles=True),
    "a compacted offset in the middle of a segment": Case(
        all_of(soon, checkpoint(CLEANED, (ORDERS, 12))), settles=True
    ),
    "a compacted offset of a partition that there is not": Case(
        all_of(soon, added(CLEANED, b"0\n2\norders 0 6\norders 7 3\n")), settles=True
    ),
    "a compacted offset of a partition twice": Case(
        all_of(soon, added(CLEANED, b"0\n2\norders 0 14\norders 0 6\n")), settles=True
    ),
    "a compacted offset before the log's start": Case(
        all_of(soon, checkpoint(STARTS_AT, (ORDERS, 8)), checkpoint(CLEANED, (ORDERS, 6))), settles=True
    ),
    "the cleaner comes to a byte that has changed": Case(all_of(soon, rewritten(file_of(6), flipped)), settles=True),
    "the cleaner comes to a hole": Case(all_of(soon, rewritten(file_of(6), lacking(7))), settles=True),
    "the cleaner comes to a segment that is missing": Case(all_of(soon, segment_gone(6)), settles=True),
}


def found(offsets: str, *, end: int = END, aborted: str = "9", by_time: Sequence[int] = LOOKED_FOR) -> Answer:
    """It starts, and this can be read of the topic; all of the other one can."""
    orders = Seen(0, end, offsets, aborted, list(by_time), {}, end)
    return Answer(STARTS, {FOLDER: orders, f"{OTHER}-0": Seen(0, 2, "0-1", "", [], {}, 2)})


WHOLE = found("1 3-15")
NO_INDEX = "reason=it is missing; the indexes are made of the batches again"
NO_SUCH_EPOCH = "leader-epoch-checkpoint reason=epoch 1 begins at offset 2 there, and the batch at 15 is of epoch 0"
TOLD: Mapping[str, Sequence[str]] = {
    "a batch is cut out of a segment with its index": [f"{file_of(6, '.index')} {NO_INDEX}"],
    "the last batch is cut out": ["orders-0 reason=it ends at offset 15, and everything up to 16 was on the device"],
    "no first segment": ["orders-0 reason=it begins at offset 3, and its leader epochs at 0"],
    "no last segment": ["orders-0 reason=it ends at offset 14, and everything up to 16 was on the device"],
    "two segments are one": [f"{file_of(0, '.index')} {NO_INDEX}"],
    "a byte has changed in a cleaned segment, after a kill": [
        *(f"{file_of(base)} reason=it follows offset -1, where the log ends" for base in BASES[1:]),
        "orders-0 is compacted up to offset 6 there, and ends at 0; it is compacted anew",
        "log_tail_cut folder=orders-0 end_offset=0 bytes=300072 reason=the checksum of the batch at offset 1 is not",
    ],
    "half a batch at the end of a cleaned segment": [
        f"{file_of(3)} reason=the batch is cut off, or none (position 600146); what follows is not read"
    ],
    "half a batch at the end of a cleaned segment, after a kill": [
        *(f"{file_of(base)} reason=it follows offset 4, where the log ends" for base in BASES[2:]),
        "orders-0 is compacted up to offset 6 there, and ends at 5; it is compacted anew",
        "log_tail_cut folder=orders-0 end_offset=5 bytes=299973 reason=the batch is cut off, or none",
    ],
    "a cleaned segment has no indexes": [f"{file_of(3, '.index')} {NO_INDEX}"],
    "a transaction index beside the cleaned segment": [
        f"{file_of(3, '.txnindex')} reason=it has a transaction from offset 9 to 10; it is made of the batches again"
    ],
    "leader epochs begin in a hole": [NO_SUCH_EPOCH],
    "leader epochs begin in a hole, after a kill": [NO_SUCH_EPOCH],
    "an output without its indexes, after a clean stop": [f"{file_of(6, '.index')} {NO_INDEX}"],
    "an output that is empty": [f"{file_of(6)}.swap reason=it is empty; the segments that it replaces are kept"],
    "an output that is cut off": [
        f"{file_of(6)}.swap reason=the batch is cut off, or none; the segments that it replaces are kept"
    ],
    "an output that is garbage": [
        f"{file_of(6)}.swap reason=the batch is cut off, or none; the segments that it replaces are kept"
    ],
    "a compacted offset behind the end": [
        "cleaner-offset-checkpoint reason=orders-0 is compacted up to offset 99 there, and ends at 16; it is compacted"
    ],
}
TRUSTS = "Kafka trusts the index"
INSTEAD: Mapping[str, tuple[Answer, str]] = {
    "a batch is cut out of a segment": (found("1 3-6 8-15"), "Kafka trusts the indexes, and skips records"),
    "the first batch of a segment is cut out": (found("1 4-15"), "Kafka trusts the indexes, and skips records"),
    "all batches of a segment are cut out": (found("1 6-15", by_time=[6, 9]), TRUSTS),
    "the records of an aborted transaction are cut out": (found("1 3-8 10-15", by_time=[4, 11]), TRUSTS),
    "an aborted transaction is cut out": (found("1 3-8 11-15", by_time=[4, 11]), TRUSTS),
    "a batch is cut out of the last segment": (
        found("1 3-13 15"),
        "Kafka trusts an index that points to the end of the file, and loses a batch",
    ),
    "the last batch is cut out": (
        found("1 3-14", end=15),
        "Kafka trusts an index that points to the end of the file, and loses a batch",
    ),
    "a segment under an offset in a hole": (WHOLE, "Kafka adds the file's offset to those in its index"),
    "the time index of before the pass": (WHOLE, TRUSTS),
    "an offset index names an offset in a hole": (WHOLE, "Kafka trusts the index, and skips records"),
    "a time index is of the next segment": (WHOLE, TRUSTS),
    "the indexes of a cleaned segment are empty": (WHOLE, TRUSTS),
    "the indexes of a cleaned segment are zeros": (WHOLE, TRUSTS),
    "the indexes of a cleaned segment are garbage": (WHOLE, TRUSTS),
    "the indexes of an output without its batches": (WHOLE, "Kafka takes them for those of the segment"),
    "an output that is empty": (WHOLE, "Kafka puts the output in the place of its input"),
    "an output that is cut off": (WHOLE, "Kafka puts the output in the place of its input"),
    "an output that is garbage": (WHOLE, "Kafka refuses, and its input is there"),
}
TABLE = Table(CASES, RECORDED, make_compacted, make_empty_compacted, END, TOLD, INSTEAD)

if __name__ == "__main__":
    main(TABLE)
