"""What is said of findings that no incident stands over: those of histories, copies and event logs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from odradek_pipeline.wording import number

__all__ = ["MEANINGS", "sentence_of"]

MEANINGS: dict[str, tuple[str, str]] = {
    "inconsistent-offsets": ("one offset was read with two values", "Consumers do not agree on what the log holds."),
    "duplicate": ("a value is there at two offsets", "It was written twice; whoever reads counts it twice."),
    "G1a": ("what an aborted transaction wrote was read", "Consumers acted on what never happened."),
    "precommitted-read": ("a transaction read its own write before it was committed", "Reads were not isolated."),
    "lost-write": ("an acknowledged write was never read, and later ones were", "Acknowledged records are gone."),
    "unseen": ("an acknowledged write was not read to the end", "It may be late, or lost."),
    "int-poll-skip": ("a transaction's polls left out records", "Its outputs rest on part of its inputs."),
    "int-nonmonotonic-poll": ("a transaction's polls went back", "Its outputs count inputs twice."),
    "poll-skip": ("polls of one process left out records", "It acted on part of the log."),
    "nonmonotonic-poll": ("polls of one process went back", "It acted on records twice."),
    "nonmonotonic-send": ("sends of one process are in another order", "Order within a partition did not hold."),
    "int-nonmonotonic-send": ("sends of one transaction are in another order", "Order within it did not hold."),
    "G0": ("transactions overwrite each other in a cycle", "There is no order in which they happened."),
    "G1c": ("transactions depend on each other in a cycle", "There is no order in which they happened."),
    "copy-lost": ("a committed record was not copied", "The copy is not whole: start it again from an earlier offset."),
    "copy-duplicate": ("a record was copied more often than committed", "Whoever reads the copy counts it twice."),
    "copy-contaminated": ("what was not committed was copied", "The copy holds what never happened."),
    "copy-altered": ("a record was copied with other headers or time", "Whoever goes by them reads something else."),
    "txn-wrong-outcome": ("a marker contradicts its coordinator's decision", "A transaction has two outcomes."),
    "txn-without-marker": ("a transaction is complete and a partition has no marker", "It is open there for good."),
    "offset-regression": ("offsets that were written go back", "Records that were there are replaced."),
    "events-missing": ("events are missing", "What is in them is not judged."),
    "txn-hanging": ("a transaction is open and no coordinator has it", "read_committed consumers wait for good."),
    "lso-stall": ("a last stable offset stayed", "read_committed consumers waited that long."),
}
"""By finding: what it says of one, and what it costs."""
PLACES_SHOWN = 3


def sentence_of(kind: str, rows: pd.DataFrame) -> dict[str, Any]:
    """All findings of a kind as one incident; where they are is told of the first."""
    what, blocks = MEANINGS.get(kind, (kind.replace("-", " "), ""))
    first = {str(key): value for key, value in rows.iloc[0].to_dict().items()}
    places = [
        f"{row['topic']}-{row['partition']}" + (f" at offset {number(row['offset'])}" if row["offset"] >= 0 else "")
        for row in rows.head(PLACES_SHOWN).to_dict("records")
        if row["topic"]
    ]
    where = (": " + ", ".join(dict.fromkeys(places))) if places else ""
    more = ", …" if len(rows) > PLACES_SHOWN and places else ""
    times = "Once" if len(rows) == 1 else f"{number(len(rows))} times"
    detail = f". {first['detail']}" if first.get("detail") else ""
    return {
        **{
            name: first.get(name, -1) for name in ("partition", "offset", "end_offset", "producer_id", "producer_epoch")
        },
        **{name: first.get(name, "") for name in ("topic", "transactional_id", "path")},
        "position": first.get("position", -1),
        "incident": kind,
        "what": f"{times} {what}{where}{more}{detail}".rstrip(".") + ".",
        "since": -1,
        "blocks": blocks,
        "run": "",
        "anomalies": len(rows),
        "problems": 0,
    }
