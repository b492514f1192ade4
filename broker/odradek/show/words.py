"""Events in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from odradek.core.wording import counted
from odradek.show.events import Fields

__all__ = ["NO_ANSWER", "api_name", "text_of"]

VALUE_MAX = 60
NO_ANSWER = "NETWORK_EXCEPTION"
"""The error of a verification without an answer of the coordinator in time; only the leader sets it."""


@cache
def api_name(name: str) -> str:
    """The name of an API as people write it: END_TXN is EndTxn."""
    return "".join(word.capitalize() for word in name.split("_"))


def _place(fields: Fields) -> str:
    return f"{fields.get('topic')}-{fields.get('partition')}"


def _request(fields: Fields) -> str:
    return f"{api_name(str(fields.get('api')))} v{fields.get('version')}"


def _response(fields: Fields) -> str:
    error = fields.get("error", "NONE")
    return f"{api_name(str(fields.get('api')))} answered{'' if error == 'NONE' else f': {error}'}"


def _state(fields: Fields) -> str:
    before = f"{fields['state_from']} → " if fields.get("state_from") else ""
    epoch = "" if fields.get("producer_epoch") is None else f", epoch {fields['producer_epoch']}"
    return f"{before}{fields.get('state_to')}{epoch}"


def _group(fields: Fields) -> str:
    state = _state({"state_from": fields.get("state_from"), "state_to": fields.get("state_to")})
    members = fields.get("members")
    counts = "" if members is None else f", {counted(members, 'member')}"
    return f"group {fields.get('group_id')}: {state}{counts}"


def _verify_end(fields: Fields) -> str:
    if fields.get("error") == NO_ANSWER:
        return f"no answer: {NO_ANSWER}"
    return "accepted" if fields.get("verdict") == "accepted" else str(fields.get("error", "refused"))


def _marker(fields: Fields) -> str:
    return f"marker {'COMMIT' if fields.get('commit') else 'ABORT'} at offset {fields.get('offset')}"


def _truncated(fields: Fields) -> str:
    return (
        f"{_place(fields)} is cut at offset {fields.get('end_offset')}: {fields.get('lost_offsets')} offsets are lost"
    )


def _pushed(fields: Fields) -> str:
    return f"{fields.get('client_id')} has pushed {counted(len(fields.get('metrics') or ()), 'metric')}"


def _dropped(fields: Fields) -> str:
    return f"{_place(fields)} has lost its oldest records, {fields.get('bytes')} bytes: the memory for logs was used up"


TEXTS: Mapping[str, Callable[[Fields], str]] = MappingProxyType(
    {
        "request": _request,
        "response": _response,
        "init_producer_id": lambda f: f"producer {f.get('producer_id')}, epoch {f.get('producer_epoch')} is given out",
        "transaction_kept": lambda f: f"the transaction stays open for epoch {f.get('producer_epoch')}",
        "partitions_added": lambda f: f"{_place(f)} is part of the transaction",
        "state_change": _state,
        "fenced": lambda f: f"the producer is fenced, epoch {f.get('producer_epoch')}",
        "verify_start": lambda f: f"AddPartitionsToTxn of {_place(f)}",
        "verify_end": _verify_end,
        "parked": lambda f: f"the batch for {_place(f)} is parked",
        "resumed": lambda f: f"the batch for {_place(f)} goes on",
        "transaction_opened": lambda f: f"open: the LSO stays at {f.get('offset')}",
        "marker_written": _marker,
        "transaction_closed": lambda f: "closed: the LSO goes on",
        "lso_moved": lambda f: f"LSO {f.get('lso')}, high watermark {f.get('hw')}",
        "leadership_taken": lambda f: f"takes the lead of {_place(f)}, leader epoch {f.get('leader_epoch')}",
        "leadership_given_up": lambda f: f"gives up the lead of {_place(f)}, leader epoch {f.get('leader_epoch')}",
        "log_truncated": _truncated,
        "dead_letters_lost": lambda f: (
            f"records {f.get('first_offset')} to {f.get('last_offset')} of {_place(f)} are lost to the dead letters"
            f" of {f.get('group_id')}: {f.get('reason')}"
        ),
        "feature_changed": lambda f: f"{f.get('feature')} goes from {f.get('level_from')} to {f.get('level_to')}",
        "group_state_change": _group,
        "telemetry_pushed": _pushed,
        "controller_activated": lambda f: (
            f"is the active controller, writes {counted(f.get('records') or 0, 'record')}"
        ),
        "broker_fenced": lambda f: f"the controller fences broker {f.get('broker')}",
        "metadata_transaction_began": lambda f: f"a metadata transaction begins at offset {f.get('offset')}",
        "metadata_transaction_ended": lambda f: f"the metadata transaction ends at offset {f.get('offset')}",
        "metadata_transaction_aborted": lambda f: f"the metadata transaction is aborted at offset {f.get('offset')}",
        "metadata_fault": lambda f: f"a metadata record is skipped at offset {f.get('offset')}: {f.get('reason')}",
        "group_record_skipped": lambda f: f"a record of a group is skipped at {f.get('offset')}: {f.get('error')}",
        "log_segment_dropped": _dropped,
        "replication_factor_lowered": lambda f: (
            f"{f.get('topic')} has {f.get('brokers')} replicas instead of {f.get('wanted')}"
        ),
    }
)


def text_of(kind: str, fields: Fields) -> str:
    """A line about an event. An event of an unknown kind is shown with its fields."""
    told = TEXTS.get(kind)
    if told is not None:
        return told(fields)
    shown = (f"{name} {_short(value)}" for name, value in fields.items() if value is not None and name != "body")
    return ", ".join((kind.replace("_", " "), *shown))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"
