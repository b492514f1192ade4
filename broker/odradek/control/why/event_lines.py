"""Events as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.net.recent import Happened, Recent
from odradek.stuck.words import clipped, clock, plain

if TYPE_CHECKING:
    from odradek.core.machine import Fact

__all__ = ["LINES", "event_text", "newest_lines"]

LINES = 20
LOOK_BACK = 400
LINE_MAX = 200
VALUE_MAX = 80
EXCHANGES = frozenset({"request", "response"})


def newest_lines(recent: Recent, count: int = LINES) -> list[str]:
    """The newest events since the start of the cluster, oldest first.

    Records of a coordinator are left out, because the change of state is an event of its own; so are answers without an
    error, because their effects are events.
    """
    looked_at = recent.after(max(recent.start, recent.last - LOOK_BACK))
    return [event_text(each) for each in looked_at if not _is_bookkeeping(each.fact)][-count:]


def _is_bookkeeping(fact: Fact) -> bool:
    if fact.kind == "response":
        return fact.fields["error"] == "NONE"
    return fact.kind == "lso_moved" and fact.fields.get("topic") in INTERNAL_TOPICS


def event_text(event: Happened) -> str:
    """`18:54:13.120 broker 1 state_change transactional_id=till-1 … Ongoing to PrepareCommit`: one line."""
    fact = event.fact
    words = [clock(event.at_ms), f"broker {event.node}", fact.kind]
    words += _request(fact.fields) if fact.kind in EXCHANGES else _fields(fact.fields)
    return clipped(" ".join(words), LINE_MAX)


def _request(fields: Mapping[str, object]) -> list[str]:
    """`END_TXN v5 of till`, and the error in its answer."""
    who = "a broker" if fields.get("from_broker") else plain(fields.get("client_id") or "a client", VALUE_MAX)
    words = [f"{fields.get('api')} v{fields.get('version')} of {who}"]
    return [*words, f"error={fields['error']}"] if "error" in fields else words


def _fields(fields: Mapping[str, object]) -> list[str]:
    """The content of an event as `name=value`; topic and partition become one value, as do the old and new state."""
    rest = dict(fields)
    words = []
    if "topic" in rest and "partition" in rest:
        words.append(f"{plain(rest.pop('topic'), VALUE_MAX)}-{rest.pop('partition')}")
    change = None
    if "state_to" in rest:
        before, after = rest.pop("state_from", None), rest.pop("state_to")
        change = f"to {after}" if before is None else f"{before} to {after}"
    words += [f"{name}={plain(value, VALUE_MAX)}" for name, value in rest.items() if value is not None]
    return [*words, change] if change else words
