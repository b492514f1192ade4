"""Checking and changing configs (Kafka's `ConfigurationControlManager` and `ControllerConfigurationValidator`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.config.addresses import parse_overrides
from odradek.config.keys import NODE_ID_BITS, BadValue, Key, Kind, Scope, text_of, whole_number
from odradek.config.security import LISTENER_PREFIX, RECONFIGURABLE, key_of
from odradek.config.table import BROKER_KEYS, TOPIC_KEYS, Config
from odradek.config.without_effect import INERT_DYNAMIC_KEYS, INERT_KEYS, INERT_PER_BROKER_KEYS, INERT_PER_LISTENER_KEYS
from odradek.core.java_order import hash_order
from odradek.metadata.change import Change, Failure
from odradek.metadata.client_metrics import invalid_client_metrics
from odradek.metadata.features import ELIGIBLE_REPLICAS, MIN_INSYNC
from odradek.metadata.group_configs import invalid_group_configs
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.metadata.inert_configs import invalid_inert_configs
from odradek.metadata.topic_configs import invalid_topic_configs
from odradek.metadata.topic_names import invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_configs_response, incremental_alter_configs_response
from odradek.wire.messages.alter_configs_response import AlterConfigsResponse
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from odradek.wire.messages.alter_configs_request import AlterConfigsRequest
    from odradek.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

__all__ = [
    "Operation",
    "Step",
    "alter_configs",
    "incremental_alter_configs",
    "malformed",
    "misdirected",
    "overrides_after",
    "unknown_operation",
]

Values = dict[str, str]
R = TypeVar("R")


class Operation(IntEnum):
    """The operation of an incremental change."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(Operation)


class Step(Struct, frozen=True):
    """One change of one key; AlterConfigs is a series of SETs."""

    name: str
    operation: int
    value: str | None


class Alteration(Struct, frozen=True):
    """The changes to the overrides of one resource."""

    resource_type: int
    name: str
    steps: list[Step]
    replaces: bool = False
    """Whether overrides without a step are removed."""


def misdirected(resource_type: int, name: str, node_id: int) -> Failure | None:
    """The broker's own reason why this broker's configs cannot change (`ConfigAdminManager`), or None."""
    if resource_type != ResourceType.BROKER or not name:
        return None
    wanted = whole_number(name, NODE_ID_BITS)
    if wanted is None:
        return _refused(f"Node id must be an integer, but it is: {name}")
    if wanted != node_id:
        return _refused(f"Unexpected broker id, expected {node_id}, but received {name}")
    return None


def alter_configs(request: AlterConfigsRequest, image: MetadataImage, config: Config) -> Change[AlterConfigsResponse]:
    """Replace the overrides of each resource by these."""
    alterations = [
        Alteration(
            r.resource_type, r.resource_name, [Step(c.name, Operation.SET, c.value) for c in r.configs], replaces=True
        )
        for r in request.resources
    ]
    results, records = _alter_all(alterations, alter_configs_response.AlterConfigsResourceResponse, image, config)
    return Change(AlterConfigsResponse(responses=results), [] if request.validate_only else records)


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, image: MetadataImage, config: Config
) -> Change[IncrementalAlterConfigsResponse]:
    """Change the named overrides of each resource and keep the others (KIP-339)."""
    alterations = [
        Alteration(r.resource_type, r.resource_name, [Step(c.name, c.config_operation, c.value) for c in r.configs])
        for r in request.resources
    ]
    result = incremental_alter_configs_response.AlterConfigsResourceResponse
    if any(_means_nothing(alteration) for alteration in alterations):
        # Kafka's controller fails the whole request at an unknown operation.
        failed = [
            _result(result, each, _unmeant(each) or Failure(ErrorCode.UNKNOWN_SERVER_ERROR)) for each in alterations
        ]
        return Change(IncrementalAlterConfigsResponse(responses=failed), [])
    results, records = _alter_all(alterations, result, image, config)
    return Change(IncrementalAlterConfigsResponse(responses=results), [] if request.validate_only else records)


def _alter_all(
    alterations: Sequence[Alteration], result: Callable[..., R], image: MetadataImage, config: Config
) -> tuple[list[R], list[Struct]]:
    times = Counter((alteration.resource_type, alteration.name) for alteration in alterations)
    results, records = [], []
    for alteration in alterations:
        target = alteration.resource_type, alteration.name
        if times[target] > 1:
            outcome: Values | Failure = _refused("Each resource must appear at most once.")
        else:
            outcome = _alter(alteration, image, config)
        failure = outcome if isinstance(outcome, Failure) else Failure(ErrorCode.NONE)
        results.append(_result(result, alteration, failure))
        if not isinstance(outcome, Failure):
            records += _records(target, image.config(*target), outcome)
    return results, records


def _result(result: Callable[..., R], alteration: Alteration, failure: Failure) -> R:
    return result(
        error_code=failure.error,
        error_message=failure.message,
        resource_type=alteration.resource_type,
        resource_name=alteration.name,
    )


def _means_nothing(alteration: Alteration) -> bool:
    """Whether an operation is unknown, and the checks before it find no other error."""
    if unknown_operation(alteration.steps) is None or _unmeant(alteration) is not None:
        return False
    failure = _first_impossible(alteration.steps, _KEYS[alteration.resource_type])
    return failure is not None and failure.error is ErrorCode.UNKNOWN_SERVER_ERROR


def overrides_after(
    resource_type: int, name: str, steps: list[Step], image: MetadataImage, config: Config, *, replaces: bool = False
) -> Values | Failure:
    """The new overrides of a resource, or the reason why they are refused."""
    return _alter(Alteration(resource_type, name, steps, replaces), image, config)


def _records(target: tuple[int, str], before: Mapping[str, str], after: Mapping[str, str]) -> list[Struct]:
    resource_type, resource_name = target
    # If a broker gets the same path once more, it reads the file again.
    told_again = set(after) if resource_type == ResourceType.BROKER else frozenset[str]()
    changed: dict[str, str | None] = {
        name: value for name, value in after.items() if before.get(name) != value or name in told_again
    }
    changed |= {name: None for name in before if name not in after}
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for name, value in changed.items()
    ]


def _alter(alteration: Alteration, image: MetadataImage, config: Config) -> Values | Failure:
    """The overrides of the resource afterwards, or the reason why they are refused."""
    resource_type, name, steps = alteration.resource_type, alteration.name, alteration.steps
    failure = _unmeant(alteration)
    if failure is not None:
        return failure
    validate = _VALIDATORS[resource_type]
    before = image.config(resource_type, name)
    values = {} if alteration.replaces else dict(before)
    keys = _KEYS[resource_type]
    failure = _first_impossible(steps, keys)
    if failure is not None:
        return failure
    for step in steps:
        _take(step, values, keys)
    if resource_type == ResourceType.BROKER and image.feature(ELIGIBLE_REPLICAS) > 0:
        failure = _unfixed_min_insync(name, before, values, steps)
        if failure is not None:
            return failure
    touched = [step.name for step in steps if step.operation != Operation.DELETE]
    # The existence of the topic is checked last.
    return validate(values, touched, name, config) or _absent(resource_type, name, image) or values


def _unfixed_min_insync(
    name: str, before: Mapping[str, str], after: Mapping[str, str], steps: Sequence[Step]
) -> Failure | None:
    """With eligible leader replicas `min.insync.replicas` is the cluster's, and cannot be deleted (KIP-966)."""
    if name and any(step.name == MIN_INSYNC for step in steps):
        return Failure(ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_INSYNC} cannot be altered while ELR is enabled.")
    if not name and MIN_INSYNC in before and MIN_INSYNC not in after:
        return Failure(ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_INSYNC} cannot be removed while ELR is enabled.")
    return None


def _unmeant(alteration: Alteration) -> Failure | None:
    """The reason why the alteration is invalid, whatever the present overrides are, or None."""
    return (
        malformed(alteration.steps)
        or _unknown_type(alteration.resource_type)
        or _nameless(alteration.resource_type, alteration.name)
    )


def _unknown_type(resource_type: int) -> Failure | None:
    return None if resource_type in _VALIDATORS else _refused(f"Unknown resource type {resource_type}")


def unknown_operation(steps: Sequence[Step]) -> int | None:
    """The first unknown operation."""
    return next((step.operation for step in steps if step.operation not in _OPERATIONS), None)


def malformed(steps: Sequence[Step]) -> Failure | None:
    """The reason why these changes of one resource are invalid, whatever its type, or None."""
    if len({step.name for step in steps}) < len(steps):
        return _refused("Error due to duplicate config keys")
    nulls = [step.name for step in steps if step.value is None and step.operation != Operation.DELETE]
    if nulls:
        return _refused(f"Null value not supported for : {', '.join(nulls)}")
    return None


def _nameless(resource_type: int, name: str) -> Failure | None:
    if resource_type == ResourceType.TOPIC and not name:
        return _refused("Default topic resources are not allowed.")
    if resource_type == ResourceType.GROUP and not name:
        return _refused("Default group resources are not allowed.")
    return None


def _absent(resource_type: int, name: str, image: MetadataImage) -> Failure | None:
    if resource_type == ResourceType.TOPIC and name not in image.topics:
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def _first_impossible(steps: Sequence[Step], keys: Mapping[str, Key]) -> Failure | None:
    """The reason why these changes are refused; of several, the first in the order of Kafka's map."""
    failures = {step.name: failure for step in steps if (failure := _impossible(step, keys)) is not None}
    return next((failures[name] for name in hash_order(step.name for step in steps) if name in failures), None)


def _impossible(step: Step, keys: Mapping[str, Key]) -> Failure | None:
    if step.operation not in _OPERATIONS:
        return Failure(ErrorCode.UNKNOWN_SERVER_ERROR)
    if step.operation not in (Operation.APPEND, Operation.SUBTRACT):
        return None
    key = keys.get(step.name)
    if key is not None and key.rule.kind is Kind.LIST:
        return None
    verb = Operation(step.operation).name
    return Failure(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {step.name} because its type is not LIST.")


def _take(step: Step, values: Values, keys: Mapping[str, Key]) -> None:
    """Apply one valid step to the values."""
    if step.operation == Operation.SET:
        values[step.name] = step.value or ""
    elif step.operation == Operation.DELETE:
        values.pop(step.name, None)
    else:
        values[step.name] = _combined(values.get(step.name, text_of(keys[step.name].default) or ""), step)


def _combined(before: str, step: Step) -> str:
    words, named = [word for word in before.split(",") if word], _split(step.value or "")
    if step.operation == Operation.APPEND:
        known = set(words)
        return ",".join(words + [word for word in dict.fromkeys(named) if word not in known])
    left, kept = Counter(named), []
    for word in words:
        if left[word] > 0:
            left[word] -= 1
        else:
            kept.append(word)
    return ",".join(kept)


def _split(text: str) -> list[str]:
    """The words of a list as Java splits them: empty ones at the end are dropped, except for an empty text."""
    return text.rstrip(",").split(",") if text.strip(",") or not text else []


def _invalid_topic(values: Values, touched: Sequence[str], name: str, config: Config) -> Failure | None:
    reason = invalid_name(name)
    if reason is not None:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    return invalid_topic_configs(values, config)


def _is_of_listener(key: str) -> bool:
    return key.startswith(LISTENER_PREFIX) and key_of(key) is not None


def _of_open_listener(name: str) -> Key | None:
    """The reason why a listener's key cannot have this value; the broker itself checks certificates."""
    key = key_of(name) if name.startswith(LISTENER_PREFIX) else None
    return None if key is None or key.name in RECONFIGURABLE else key


def _invalid_broker(values: Values, touched: Sequence[str], name: str, config: Config) -> Failure | None:
    """Only dynamic keys can change; unknown keys are kept, as Kafka keeps them for plug-ins."""
    of_listener = [key for key in touched if key in INERT_PER_LISTENER_KEYS]
    if of_listener:
        return _refused(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(of_listener)}]"
        )
    fixed = [key for key in touched if _is_fixed(key)]
    if fixed:
        return _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    single = [key for key in touched if key in INERT_PER_BROKER_KEYS or _is_of_listener(key)]
    if not name and single:
        return _refused(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    for key in touched:
        checked = BROKER_KEYS.get(key) or _of_open_listener(key)
        if checked is not None:
            try:
                checked.parse(values[key])
            except BadValue as error:
                return _refused(str(error))
    inert = invalid_inert_configs(values, touched, config)
    return _refused(inert) if inert is not None else _invalid_connection_limits(values, touched, config)


def _invalid_connection_limits(values: Values, touched: Sequence[str], config: Config) -> Failure | None:
    """With this limit nobody could connect any more, not even to remove the limit."""
    for key in (MAX_CONNECTIONS, MAX_CONNECTION_CREATION_RATE):
        if key in touched and int(values[key]) <= 0:
            return _refused(
                "Invalid value org.apache.kafka.common.config.ConfigException: "
                f"Invalid {key} {int(values[key])} for configuration Invalid dynamic configuration"
            )
    overrides = values.get(PER_IP_OVERRIDES, config.max_connections_per_ip_overrides)
    if PER_IP in touched and int(values[PER_IP]) == 0 and not overrides:
        return _refused(
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        )
    try:
        parse_overrides(overrides)
    except BadValue as error:
        return _refused(str(error))
    return None


MAX_CONNECTIONS, MAX_CONNECTION_CREATION_RATE = "max.connections", "max.connection.creation.rate"
PER_IP, PER_IP_OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"


def _is_fixed(key: str) -> bool:
    if key in BROKER_KEYS:
        return BROKER_KEYS[key].rule.scope is Scope.READ_ONLY
    return key in INERT_KEYS - INERT_DYNAMIC_KEYS - INERT_PER_BROKER_KEYS


def _refused(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REQUEST, message)


def _invalid_group(values: Values, touched: Sequence[str], name: str, config: Config) -> Failure | None:
    complaint = invalid_group_configs(values, config)
    return None if complaint is None else Failure(ErrorCode.INVALID_CONFIG, complaint)


def _invalid_subscription(values: Values, touched: Sequence[str], name: str, config: Config) -> Failure | None:
    return invalid_client_metrics(values, name)


_VALIDATORS: Mapping[int, Callable[[Values, Sequence[str], str, Config], Failure | None]] = {
    ResourceType.TOPIC: _invalid_topic,
    ResourceType.BROKER: _invalid_broker,
    ResourceType.GROUP: _invalid_group,
    ResourceType.CLIENT_METRICS: _invalid_subscription,
}

_KEYS: Mapping[int, Mapping[str, Key]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.GROUP: {},
    ResourceType.CLIENT_METRICS: {},
}
