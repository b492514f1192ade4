"""The answer to a request that could not be served: Kafka's `getErrorResponse`, derived from the two schemas.

A response with an error code of its own gets that. In any other, each entry of the request has one that answers it,
and the first list of the one whose entries carry errors follows the first list of the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.node.transport.router import Call
    from odradek.wire.schema import Field, StructSpec

__all__ = ["error_response"]

MESSAGES = {
    ApiKey.DESCRIBE_CONFIGS: "The server experienced an unexpected error when processing the request.",
}
"""The texts that go with UNKNOWN_SERVER_ERROR; Kafka sends one for this API alone."""
ANSWERED_AS_A_WHOLE = frozenset({ApiKey.DESCRIBE_LOG_DIRS})
"""APIs whose entries do not answer those of the request; old versions say nothing instead of an error."""
UNANSWERED = frozenset({ApiKey.PRODUCE})
"""APIs whose client may have asked for no answer (`acks` is 0)."""
NAMES = (
    "name",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
    "index",
    "group_id",
    "key",
    "transactional_id",
    "producer_id",
    "resource_type",
    "resource_name",
)
"""The fields by which an entry says what it answers."""
ALIASES = {"partition_index": "partition"}
ERROR_FIELDS = frozenset({"error_code", "partition_error_code"})
UNKNOWN = (
    "base_offset",
    "committed_offset",
    "end_offset",
    "high_watermark",
    "log_append_time_ms",
    "log_start_offset",
    "low_watermark",
    "num_partitions",
    "offset",
    "producer_epoch",
    "producer_id",
    "replication_factor",
    "timestamp",
)
"""Numbers that are -1 where nothing is known."""


def error_response(call: Call) -> Any:
    """What a client hears of a failure in the broker itself; None where the API has no word for it."""
    if call.api_key in UNANSWERED and call.request.acks == 0:
        return None
    return _Failure(call).response()


class _Failure:
    def __init__(self, call: Call) -> None:
        self._api_key = call.api_key
        self._version = call.version
        self._request = call.request
        response_type = registry.response_type(call.api_key)
        self._module = sys.modules[response_type.__module__]
        self._asked = registry.spec(registry.request_type(call.api_key)).root
        self._answered = registry.spec(response_type).root

    def response(self) -> Any:
        whole = self._make(self._answered)
        if self._error_field(self._answered) or self._api_key in ANSWERED_AS_A_WHOLE:
            return whole
        return self._fill(whole, self._answered, self._request, self._asked)

    def _fill(self, made: Any, answered: StructSpec, asked: Any, asked_spec: StructSpec) -> Any:
        """Put into the answer one entry for each that was asked about."""
        entries = self._list(answered, self._carries_errors)
        wanted = self._list(asked_spec, lambda _: True)
        if entries is None or wanted is None:
            return None
        assert entries.struct is not None
        of_each = [
            self._entry(entries.struct, each, wanted.struct) for each in getattr(asked, wanted.python_name) or ()
        ]
        setattr(made, entries.python_name, of_each)
        return made

    def _entry(self, spec: StructSpec, asked: Any, asked_spec: StructSpec | None) -> Any:
        entry = self._make(spec)
        names = [field.python_name for field in spec.fields if field.python_name in NAMES]
        if asked_spec is None:
            # What was asked about is a bare name or number.
            setattr(entry, names[0], asked)
            return entry
        for name in names:
            for source in (name, ALIASES.get(name, name)):
                if hasattr(asked, source):
                    setattr(entry, name, getattr(asked, source))
        return entry if self._error_field(spec) else self._fill(entry, spec, asked, asked_spec)

    def _make(self, spec: StructSpec) -> Any:
        made = getattr(self._module, spec.name)()
        for field in spec.present(self._version):
            if field.python_name in UNKNOWN:
                setattr(made, field.python_name, -1)
            elif field.python_name == "error_message":
                made.error_message = MESSAGES.get(self._api_key)
        error = self._error_field(spec)
        if error is not None:
            setattr(made, error.python_name, ErrorCode.UNKNOWN_SERVER_ERROR)
        return made

    def _error_field(self, spec: StructSpec) -> Field | None:
        return next((field for field in spec.present(self._version) if field.python_name in ERROR_FIELDS), None)

    def _list(self, spec: StructSpec, wanted: Callable[[Field], bool]) -> Field | None:
        present: Iterable[Field] = spec.present(self._version)
        return next((field for field in present if field.is_array and wanted(field)), None)

    def _carries_errors(self, field: Field) -> bool:
        struct = field.struct
        if struct is None:
            return False
        return self._error_field(struct) is not None or self._list(struct, self._carries_errors) is not None
