"""The answer to a request that is not served, derived from the two schemas.

Each entry of the request has one that answers it: the first list of the response whose entries carry errors follows
the first list of the request. Where the broker itself has failed, a response with an error code of its own gets that
(Kafka's `getErrorResponse`); where a rule wants an error, it stands where a broker would say it (`refusal`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.schema import Field, StructSpec

__all__ = ["can_refuse", "error_response", "refusal"]

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
"""The fields by which an entry says what it answers."""
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
"""Numbers that are -1 where nothing is known."""
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
"""Errors about who asks or who is asked, rather than about an entry: said for the whole answer where it has a place."""
TOLD_BY_ENTRIES = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN})
"""APIs that tell even those errors of each entry: the code for the whole is that of brokers among themselves."""


def error_response(call: Call, error: ErrorCode = UNKNOWN_ERROR, message: str | None = None) -> Any:
    """What a client hears of a failure of the whole request; None where the API has no word for it.

    Without an error it is that of the broker itself.
    """
    if call.api_key in UNANSWERED and call.request.acks == 0:
        return None
    return _Failure(call, error, message).response()


def refusal(call: Call, error: ErrorCode, message: str | None = None) -> Any:
    """An answer in which everything that was asked for has this error; None where no answer is wanted.

    It stands where a broker says it: at each partition, topic or group that the request names, else for the whole.
    """
    if call.api_key in UNANSWERED and call.request.acks == 0:
        return None
    return _Failure(call, error, message).refusal()


def can_refuse(api_key: ApiKey, version: int) -> bool:
    """Whether the answers of this version have an error code."""
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
        self._module = sys.modules[response_type.__module__]
        self._asked = registry.spec(registry.request_type(call.api_key)).root
        self._answered = registry.spec(response_type).root
        self._carries_errors = _carries_errors(self._version)

    def response(self) -> Any:
        """The failure of the broker itself."""
        whole = self._make(self._answered)
        if self._has_error(self._answered) or self._api_key in ANSWERED_AS_A_WHOLE:
            return whole
        return self._fill(whole, self._answered, self._request, self._asked, innermost=False)

    def refusal(self) -> Any:
        """An error that was asked for."""
        whole = self._make(self._answered)
        innermost = self._error not in OF_THE_WHOLE or self._api_key in TOLD_BY_ENTRIES
        if self._has_error(self._answered) and not innermost:
            return whole
        filled = self._fill(
            self._make(self._answered, failed=False), self._answered, self._request, self._asked, innermost=innermost
        )
        return whole if filled is None else filled

    def _fill(self, made: Any, answered: StructSpec, asked: Any, asked_spec: StructSpec, *, innermost: bool) -> Any:
        """Put into the answer one entry for each that was asked about; None if nothing was that has an answer."""
        entries = _list(answered, self._version, self._carries_errors)
        wanted = _list(asked_spec, self._version, lambda _: True)
        if entries is None or wanted is None:
            return None
        assert entries.struct is not None
        asked_for = getattr(asked, wanted.python_name) or ()
        if innermost and not asked_for and self._has_error(answered):
            return None
        of_each = [self._entry(entries.struct, each, wanted.struct, innermost=innermost) for each in asked_for]
        setattr(made, entries.python_name, of_each)
        return made

    def _entry(self, spec: StructSpec, asked: Any, asked_spec: StructSpec | None, *, innermost: bool) -> Any:
        failed = self._identified(self._make(spec), spec, asked, bare=asked_spec is None)
        if asked_spec is None or (self._has_error(spec) and not innermost):
            return failed
        made = self._identified(self._make(spec, failed=False), spec, asked, bare=False)
        filled = self._fill(made, spec, asked, asked_spec, innermost=innermost)
        return failed if filled is None and self._has_error(spec) else filled

    def _identified(self, entry: Any, spec: StructSpec, asked: Any, *, bare: bool) -> Any:
        """Say in an entry what it answers."""
        names = [field.python_name for field in spec.fields if field.python_name in NAMES]
        if bare:
            # What was asked about is a bare name or number.
            setattr(entry, names[0], asked)
            return entry
        for name in names:
            for source in (name, ALIASES.get(name, name)):
                if hasattr(asked, source):
                    setattr(entry, name, getattr(asked, source))
        return entry

    def _make(self, spec: StructSpec, *, failed: bool = True) -> Any:
        made = getattr(self._module, spec.name)()
        for field in spec.present(self._version):
            value: object
            if field.python_name in UNKNOWN:
                value = -1
            elif field.python_name == "error_message" and failed:
                value = self._message
            elif field.kind == "records" and self._version not in field.nullable:
                value = b""
            else:
                continue
            setattr(made, field.python_name, value)
        error = _error_field(spec, self._version)
        if error is not None and failed:
            setattr(made, error.python_name, self._error)
        return made

    def _has_error(self, spec: StructSpec) -> bool:
        return _error_field(spec, self._version) is not None
