"""The answer to a request that is not served, derived from the two schemas.

Each entry of the request gets an entry in the response: the first list of the request corresponds to the first list of
the
response whose entries have error codes. If the broker itself has failed, a response with an error code of its own gets
that one (Kafka's `getErrorResponse`); the error of a rule stands where a broker would put it (`refusal`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import PRODUCE
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.schema import Field, StructSpec, Value

__all__ = ["can_refuse", "error_response", "refusal"]

MESSAGES = {
    ApiKey.DESCRIBE_CONFIGS: "The server experienced an unexpected error when processing the request.",
}
"""Messages for UNKNOWN_SERVER_ERROR; Kafka sends one for this API alone."""
ANSWERED_AS_A_WHOLE = frozenset({ApiKey.DESCRIBE_LOG_DIRS})
"""APIs whose entries do not correspond to those of the request; old versions return nothing in place of an error."""
UNANSWERED = frozenset({ApiKey.PRODUCE})
"""APIs whose client may want no response (`acks` is 0)."""
NAMES = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "partition_id",
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
"""Fields that identify an entry."""
ALIASES = {"partition_id": "partition", "partition_index": "partition"}
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
"""Numbers that are -1 if unknown."""
UNKNOWN_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR


OF_THE_WHOLE = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors about the client or the broker, not about an entry: they stand for the whole response if it has a place."""
TOLD_BY_ENTRIES = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN})
"""APIs that repeat even those errors in each entry: the code for the whole is for brokers among themselves."""


def error_response(call: Call, error: ErrorCode = UNKNOWN_ERROR, message: str | None = None) -> Struct | None:
    """The response if the whole request failed; None if the API cannot express it.

    The default is an error of the broker itself.
    """
    if call.api_key in UNANSWERED and call.request_of(PRODUCE).acks == 0:
        return None
    return _Failure(call, error, message).response()


def refusal(call: Call, error: ErrorCode, message: str | None = None) -> Struct | None:
    """A response with this error for every entry of the request; None if the client wants no response.

    The error stands where a broker puts it: at each partition, topic or group of the request, else for the whole.
    """
    if call.api_key in UNANSWERED and call.request_of(PRODUCE).acks == 0:
        return None
    return _Failure(call, error, message).refusal()


def can_refuse(api_key: ApiKey, version: int) -> bool:
    """Whether responses of this version have an error code."""
    spec = registry.spec(registry.response_type(api_key)).root
    return _error_field(spec, version) is not None or _list(spec, version, _carries_errors(version)) is not None


def _error_field(spec: StructSpec, version: int) -> Field | None:
    return next((field for field in spec.present(version) if field.python_name in ERROR_FIELDS), None)


def _list(spec: StructSpec, version: int, wanted: Callable[[Field], bool]) -> Field | None:
    return next((field for field in spec.present(version) if field.is_array and wanted(field)), None)


def _carries_errors(version: int) -> Callable[[Field], bool]:
    def carries(field: Field) -> bool:
        struct = field.struct
        if struct is None:
            return False
        return _error_field(struct, version) is not None or _list(struct, version, carries) is not None

    return carries


class _Failure:
    def __init__(
        self, call: Call, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR, message: str | None = None
    ) -> None:
        self._api_key = call.api_key
        self._version = call.version
        self._request = call.request
        self._error = error
        self._message = message if message is not None or error is not UNKNOWN_ERROR else MESSAGES.get(call.api_key)
        response_type = registry.response_type(call.api_key)
        self._types = registry.struct_types(response_type)
        self._asked = registry.spec(registry.request_type(call.api_key)).root
        self._answered = registry.spec(response_type).root
        self._carries_errors = _carries_errors(self._version)

    def response(self) -> Struct | None:
        """The failure of the broker itself."""
        whole = self._make(self._answered)
        if self._has_error(self._answered) or self._api_key in ANSWERED_AS_A_WHOLE:
            return whole
        return self._fill(whole, self._answered, self._request, self._asked, innermost=False)

    def refusal(self) -> Struct | None:
        """An error that was asked for."""
        whole = self._make(self._answered)
        innermost = self._error not in OF_THE_WHOLE or self._api_key in TOLD_BY_ENTRIES
        if self._has_error(self._answered) and not innermost:
            return whole
        filled = self._fill(
            self._make(self._answered, failed=False), self._answered, self._request, self._asked, innermost=innermost
        )
        return whole if filled is None else filled

    def _fill(
        self, made: Struct, answered: StructSpec, asked: Struct, asked_spec: StructSpec, *, innermost: bool
    ) -> Struct | None:
        """Add an entry to the response for each entry of the request; None if no list corresponds."""
        entries = _list(answered, self._version, self._carries_errors)
        wanted = _list(asked_spec, self._version, lambda _: True)
        if entries is None or wanted is None:
            return None
        assert entries.struct is not None
        asked_for = [] if wanted.of(asked) is None else wanted.all_of(asked)
        if innermost and not asked_for and self._has_error(answered):
            return None
        entries.put(made, [self._entry(entries.struct, each, wanted.struct, innermost=innermost) for each in asked_for])
        return made

    def _entry(
        self, spec: StructSpec, asked: Value, asked_spec: StructSpec | None, *, innermost: bool
    ) -> Struct | None:
        failed = self._make(spec)
        if asked_spec is None:
            # What was asked about is a bare name or number.
            next(field for field in spec.fields if field.python_name in NAMES).put(failed, asked)
            return failed
        assert isinstance(asked, Struct), f"an entry is a {asked_spec.name}"
        _identify(failed, spec, asked, asked_spec)
        if self._has_error(spec) and not innermost:
            return failed
        made = self._make(spec, failed=False)
        _identify(made, spec, asked, asked_spec)
        filled = self._fill(made, spec, asked, asked_spec, innermost=innermost)
        return failed if filled is None and self._has_error(spec) else filled

    def _make(self, spec: StructSpec, *, failed: bool = True) -> Struct:
        made = self._types[spec.name]()
        for field in spec.present(self._version):
            if field.python_name in UNKNOWN:
                field.put(made, -1)
            elif field.python_name == "error_message" and failed:
                field.put(made, self._message)
            elif field.kind == "records" and self._version not in field.nullable:
                field.put(made, b"")
        error = _error_field(spec, self._version)
        if error is not None and failed:
            error.put(made, self._error)
        return made

    def _has_error(self, spec: StructSpec) -> bool:
        return _error_field(spec, self._version) is not None


def _identify(entry: Struct, spec: StructSpec, asked: Struct, asked_spec: StructSpec) -> None:
    """Fill in the fields that identify the entry of the request."""
    for field in spec.fields:
        if field.python_name in NAMES:
            for name in (field.python_name, ALIASES.get(field.python_name, field.python_name)):
                source = asked_spec.field(name)
                if source is not None:
                    field.put(entry, source.of(asked))
