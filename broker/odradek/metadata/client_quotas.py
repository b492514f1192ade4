"""Limits of clients: set, removed and described (KIP-546, KIP-612, KIP-599; Kafka's `ClientQuotaControlManager`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.metadata.change import Change, Failure
from odradek.metadata.image import CLIENT_ID, IP, USER, QuotaEntity
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
)
from odradek.wire.messages.alter_client_quotas_response import EntityData as AlteredEntity
from odradek.wire.messages.alter_client_quotas_response import EntryData as Altered
from odradek.wire.messages.client_quota_record import ClientQuotaRecord
from odradek.wire.messages.client_quota_record import EntityData as RecordedEntity
from odradek.wire.messages.describe_client_quotas_response import DescribeClientQuotasResponse, ValueData
from odradek.wire.messages.describe_client_quotas_response import EntityData as DescribedEntity
from odradek.wire.messages.describe_client_quotas_response import EntryData as Described

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage
    from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntryData, OpData
    from odradek.wire.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

__all__ = ["KEYS_OF_CLIENTS", "KEYS_OF_IPS", "alter_quotas", "describe_quotas", "quota_records"]

LONG_MAX, INT_MAX = float(2**63), 2**31 - 1
EPSILON = 1e-6
"""The tolerance for whole numbers, which arrive as floating point."""
TYPES = frozenset({USER, CLIENT_ID, IP})


class Number(Struct, frozen=True):
    """The permitted values of a limit: whole numbers up to a largest one, or any number above 0."""

    largest: float = math.inf
    type_name: str = ""


KEYS_OF_CLIENTS: Mapping[str, Number] = {
    "consumer_byte_rate": Number(LONG_MAX, "a LONG"),
    "controller_mutation_rate": Number(),
    "producer_byte_rate": Number(LONG_MAX, "a LONG"),
    "request_percentage": Number(),
}
"""The limits of users and of client ids."""
KEYS_OF_IPS: Mapping[str, Number] = {"connection_creation_rate": Number(INT_MAX, "an INT")}


def alter_quotas(request: AlterClientQuotasRequest, image: MetadataImage) -> Change[AlterClientQuotasResponse]:
    """Each entity succeeds or fails on its own; the second of two entries for one entity is refused."""
    outcomes: dict[QuotaEntity, Failure | None] = {}
    records: list[Struct] = []
    for entry in request.entries:
        entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
        keys = {op.key for op in entry.ops}
        if entity in outcomes or len(keys) < len(entry.ops):
            told = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
            text = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{told}}})"
            outcomes[entity] = Failure(ErrorCode.INVALID_REQUEST, text)
            continue
        judged = _judged(entity, entry, image)
        outcomes[entity] = judged if isinstance(judged, Failure) else None
        if not isinstance(judged, Failure):
            records += judged
    results = [
        Altered(
            error_code=ErrorCode.NONE if failure is None else failure.error,
            error_message=None if failure is None else failure.message,
            entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        )
        for entity, failure in outcomes.items()
    ]
    return Change(AlterClientQuotasResponse(entries=results), [] if request.validate_only else records)


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """An entity, whatever the order of its parts; of two parts of one type the last counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


def _judged(entity: QuotaEntity, entry: EntryData, image: MetadataImage) -> list[Struct] | Failure:
    """The records of the change, or the error."""
    keys = _keys_of(entity)
    if isinstance(keys, Failure):
        return keys
    current = image.quotas.get(entity, {})
    records: list[Struct] = []
    for op in entry.ops:
        if op.remove:
            if op.key in current:
                records.append(_record(entity, op.key, None))
            continue
        failure = _unusable(keys, op)
        if failure is not None:
            return failure
        if current.get(op.key) != op.value:
            records.append(_record(entity, op.key, op.value))
    return records


def _keys_of(entity: QuotaEntity) -> Mapping[str, Number] | Failure:
    """The limits that an entity can have, or the error if it can have none."""
    if not entity:
        return Failure(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            return Failure(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            return Failure(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    kinds = dict(entity)
    if IP not in kinds:
        return KEYS_OF_CLIENTS
    if len(kinds) > 1:
        text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        return Failure(ErrorCode.INVALID_REQUEST, text)
    name = kinds[IP]
    if name is not None and not _is_address(name):
        return Failure(ErrorCode.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host.")
    return KEYS_OF_IPS


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _unusable(keys: Mapping[str, Number], op: OpData) -> Failure | None:
    number = keys.get(op.key)
    if number is None:
        return Failure(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
    if not math.isfinite(op.value):
        return Failure(ErrorCode.INVALID_REQUEST, f"Quota {op.key} must be a finite number")
    if op.value <= 0:
        return Failure(ErrorCode.INVALID_REQUEST, f"Quota {op.key} must be greater than 0")
    if op.value > number.largest:
        return Failure(ErrorCode.INVALID_REQUEST, f"Proposed value for {op.key} is too large for {number.type_name}.")
    if number.type_name and abs(math.floor(op.value + EPSILON) - op.value) > EPSILON:
        return Failure(ErrorCode.INVALID_REQUEST, f"{op.key} cannot be a fractional value.")
    return None


def _record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[RecordedEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=value or 0.0,
        remove=value is None,
    )


def quota_records(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> Iterator[Struct]:
    for entity, values in quotas.items():
        for key, value in values.items():
            yield _record(entity, key, value)


Matches = Callable[[str | None], bool]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
_NAMES = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def describe_quotas(request: DescribeClientQuotasRequest, image: MetadataImage) -> DescribeClientQuotasResponse:
    """The limits of the entities that match every part of the filter; with `strict`, that have no other part."""
    asked = _filter(request.components)
    if isinstance(asked, Failure):
        return DescribeClientQuotasResponse(error_code=asked.error, error_message=asked.message, entries=None)
    response = DescribeClientQuotasResponse(error_message="", entries=[])
    for entity, values in image.quotas.items():
        parts = dict(entity)
        if request.strict and len(parts) != len(asked):
            continue
        if all(kind in parts and matches(parts[kind]) for kind, matches in asked.items()):
            assert response.entries is not None
            response.entries.append(
                Described(
                    entity=[DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
    return response


def _filter(components: Sequence[ComponentData]) -> dict[str, Matches] | Failure:
    asked: dict[str, Matches] = {}
    for component in components:
        failure = _unusable_component(component, asked)
        if failure is not None:
            return failure
        asked[component.entity_type] = _test(component)
    if IP in asked and len(asked) > 1:
        text = (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
        return Failure(ErrorCode.INVALID_REQUEST, text)
    return asked


def _unusable_component(component: ComponentData, asked: Mapping[str, Matches]) -> Failure | None:
    kind = component.entity_type
    text = None
    if not kind:
        text = "Invalid empty entity type."
    elif kind in asked:
        text = f"Entity type {kind} cannot appear more than once in the filter."
    elif kind not in TYPES:
        return Failure(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    elif component.match_type == EXACT:
        if component.match is None:
            text = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif component.match_type not in _NAMES:
        text = f"Unknown match type {component.match_type}"
    elif component.match is not None:
        text = f"Request specified {_NAMES[component.match_type]}, but also specified a match string."
    return None if text is None else Failure(ErrorCode.INVALID_REQUEST, text)


def _test(component: ComponentData) -> Matches:
    wanted = component.match
    return (lambda _: True) if component.match_type == SPECIFIED else (lambda name: name == wanted)
