"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec.structs import replace

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.access.needs import DENIED, TEXTS, allowed_on_cluster, each_judged, in_series
from odradek.config.keys import NODE_ID_BITS, whole_number
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import entries_in_parts
from odradek.metadata import describe
from odradek.metadata.api.started_with import started_with
from odradek.metadata.change import Failure
from odradek.metadata.configs import Operation, Step, malformed, misdirected, unknown_operation
from odradek.metadata.image import ResourceType
from odradek.metadata.topic_names import invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_configs_response import AlterConfigsResourceResponse as AlteredConfigs
from odradek.wire.messages.alter_configs_response import AlterConfigsResponse
from odradek.wire.messages.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
from odradek.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementallyAlteredConfigs,
)
from odradek.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from odradek.wire.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from msgspec import Struct

    from odradek.access.authority import Authority
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.metadata.api.listener_certificates import ListenerCertificates
    from odradek.metadata.api.logger_levels import LoggerLevels
    from odradek.metadata.describe import Entry
    from odradek.wire.messages.alter_configs_request import AlterConfigsRequest
    from odradek.wire.messages.alter_configs_request import AlterConfigsResource as AlterPlainly
    from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
    from odradek.wire.messages.incremental_alter_configs_request import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from odradek.wire.messages.list_config_resources_request import ListConfigResourcesRequest

__all__ = [
    "ConfigApi",
]


R = TypeVar("R")

ALTERED_AT_ONCE = 50
"""Resources whose configs are altered before other clients are served; validation takes 100 µs for each."""
SOURCES_SINCE = 1
"""The first version of DescribeConfigs with sources and synonyms; before, it tells defaults from other values."""

DESCRIBED = frozenset(ResourceType) - {ResourceType.UNKNOWN}
"""The types of resources that have configs."""

ALL_TYPES_SINCE = 1
"""The first version of ListConfigResources that lists more types than client metrics (KIP-1142)."""

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


_Resource: TypeAlias = "AlterConfigsResource | AlterPlainly | DescribeConfigsResource"
E = TypeVar("E", bound="_Resource")
_CONFIGURED: Mapping[int, AclResource] = {ResourceType.TOPIC: AclResource.TOPIC, ResourceType.GROUP: AclResource.GROUP}
"""The types of resources whose own permissions decide; for the others the permissions of the cluster do."""
_KEPT_BY_CONTROLLER = frozenset({ResourceType.CLIENT_METRICS})
"""The types that the broker with the request keeps itself; it refuses them without a text."""
_TEXTS_OF_RESOURCES = {error: text for error, text in TEXTS.items() if error is not DENIED[AclResource.CLUSTER]}


def _judge(
    operation: AclOperation, kinds: Container[int] = frozenset(ResourceType)
) -> Callable[[Authority, Call[Struct], _Resource], ErrorCode]:
    """Whether the client may do this to the configs of a resource of these types; others are not checked."""

    def judge(authority: Authority, call: Call[Struct], entry: _Resource) -> ErrorCode:
        if entry.resource_type not in kinds:
            return ErrorCode.NONE
        kind = _CONFIGURED.get(entry.resource_type, AclResource.CLUSTER)
        name = CLUSTER_NAME if kind is AclResource.CLUSTER else entry.resource_name
        return ErrorCode.NONE if authority.allows(call, operation, kind, name) else DENIED[kind]

    return judge


def _described_resources(request: DescribeConfigsRequest) -> list[DescribeConfigsResource]:
    return request.resources


def _described_results(response: DescribeConfigsResponse) -> list[DescribeConfigsResult]:
    return response.results


_BY_CONTROLLER = _judge(AclOperation.ALTER_CONFIGS, _KEPT_BY_CONTROLLER)
_BY_BROKER = _judge(AclOperation.ALTER_CONFIGS, frozenset(ResourceType) - _KEPT_BY_CONTROLLER)
_ALTER_TEXT = "ALTER_CONFIGS on each topic or group, or on the cluster for other resources"


def _plain_resources(request: AlterConfigsRequest) -> list[AlterPlainly]:
    return request.resources


def _plain_answers(response: AlterConfigsResponse) -> list[AlteredConfigs]:
    return response.responses


def _resources(request: IncrementalAlterConfigsRequest) -> list[AlterConfigsResource]:
    return request.resources


def _answers(response: IncrementalAlterConfigsResponse) -> list[IncrementallyAlteredConfigs]:
    return response.responses


_MAY_ALTER = in_series(
    each_judged(_BY_CONTROLLER, asked=_plain_resources, answered=_plain_answers, texts=TEXTS, text=_ALTER_TEXT),
    each_judged(_BY_BROKER, asked=_plain_resources, answered=_plain_answers, texts=_TEXTS_OF_RESOURCES, text=""),
)
_MAY_ALTER_INCREMENTALLY = in_series(
    each_judged(_BY_CONTROLLER, asked=_resources, answered=_answers, texts=TEXTS, text=_ALTER_TEXT),
    each_judged(_BY_BROKER, asked=_resources, answered=_answers, texts=_TEXTS_OF_RESOURCES, text=""),
)


class ConfigApi:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

    def __init__(
        self, node: Host, forwarding: Forwarding, *, levels: LoggerLevels, certificates: ListenerCertificates
    ) -> None:
        self._log_dir = node.store.path_of(node.node_id)
        self._forwarding = forwarding
        self._levels = levels
        self._cluster = node.cluster
        self._certificates = certificates
        self._node_id = node.node_id
        self._metadata = node.metadata
        self._settings = node.settings
        self._turns = node.turns

    @endpoint(
        DESCRIBE_CONFIGS,
        needs=each_judged(
            _judge(AclOperation.DESCRIBE_CONFIGS),
            asked=_described_resources,
            answered=_described_results,
            texts=TEXTS,
            text="DESCRIBE_CONFIGS on each topic or group, or on the cluster for other resources",
        ),
        in_parts=True,
    )
    async def describe_configs(self, call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
        """DescribeConfigs (key 32), versions 0 to 4: 1 adds sources (KIP-226), 3 types and documentation (KIP-569)."""
        request = call.request
        response = DescribeConfigsResponse()
        if not {resource.resource_type for resource in request.resources} <= DESCRIBED:
            # An unknown type is refused before anything is described.
            response.results = [_unanswered(each, ErrorCode.INVALID_REQUEST, MALFORMED) for each in request.resources]
            return response
        async for some in self._turns.share(call, request.resources):
            response.results += [self._described(resource, request, call.version) for resource in some]
        return response

    def _described(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest, version: int
    ) -> DescribeConfigsResult:
        found = self._entries(resource.resource_type, resource.resource_name)
        if isinstance(found, Failure):
            return _unanswered(resource, found.error, found.message)
        result = _unanswered(resource, ErrorCode.NONE, "")
        wanted = set(resource.configuration_keys or ())
        text_of = _texts(resource.resource_type, asked=request.include_documentation)
        result.configs = [
            _shown(entry, request, version, text_of) for entry in found if not wanted or entry.name in wanted
        ]
        return result

    def _entries(self, resource_type: int, name: str) -> list[Entry] | Failure:
        image = self._metadata.image
        if resource_type == ResourceType.TOPIC:
            reason = invalid_name(name)
            if reason is not None:
                return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
            if name not in image.topics:
                return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return describe.TopicEntries(self._settings.config).of(image.config(ResourceType.TOPIC, name))
        if resource_type == ResourceType.BROKER:
            return self._broker_entries(name)
        if resource_type == ResourceType.GROUP:
            if not name:
                return Failure(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return describe.group_entries(image.config(ResourceType.GROUP, name), self._settings.config)
        if resource_type == ResourceType.BROKER_LOGGER:
            return self._levels.entries(name)
        if resource_type == ResourceType.CLIENT_METRICS:
            if not name:
                return Failure(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return describe.client_metrics_entries(image.config(ResourceType.CLIENT_METRICS, name))
        return Failure(ErrorCode.INVALID_REQUEST, MALFORMED)

    def _broker_entries(self, name: str) -> list[Entry] | Failure:
        if not name:
            return describe.broker_default_entries(self._metadata.image.config(ResourceType.BROKER, ""))
        wanted = whole_number(name, NODE_ID_BITS)
        if wanted is None:
            return Failure(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if wanted != self._node_id:
            return Failure(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._node_id} or empty string, but received {name}",
            )
        return describe.broker_entries(
            self._settings.config,
            started_with(
                self._node_id, self._cluster, self._metadata.image, self._settings.config, log_dir=self._log_dir
            ),
        )

    @endpoint(ALTER_CONFIGS, needs=_MAY_ALTER)
    async def alter_configs(self, call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
        """AlterConfigs (key 33), versions 0 to 2; 2 is flexible."""
        request = call.request
        here, astray = self._split(call, request.resources, AlteredConfigs)
        here, unusable = self._usable(call, here, AlteredConfigs, _plain_steps, replaces=True)
        astray += unusable

        def refuse(part: AlterConfigsRequest, error: ErrorCode, message: str | None) -> AlterConfigsResponse:
            refused = [_failed(AlteredConfigs, each, error, message) for each in part.resources]
            return AlterConfigsResponse(responses=refused)

        response = await self._forwarding.ask_in_parts(
            call,
            (replace(request, resources=part) for part in entries_in_parts(here, key=_target, size=ALTERED_AT_ONCE)),
            lambda controller, part: controller.alter_configs(part),
            refuse,
            AlterConfigsResponse,
            lambda joined, more: joined.responses.extend(more.responses),
        )
        response.responses += astray
        return response

    @endpoint(INCREMENTAL_ALTER_CONFIGS, needs=_MAY_ALTER_INCREMENTALLY)
    async def incremental_alter_configs(
        self, call: Call[IncrementalAlterConfigsRequest]
    ) -> IncrementalAlterConfigsResponse:
        """IncrementalAlterConfigs (key 44), versions 0 and 1 (KIP-339); 1 is flexible."""
        request = call.request
        others, answered = self._levels_altered(request)
        here, astray = self._split(call, others, IncrementallyAlteredConfigs)
        here, unusable = self._usable(call, here, IncrementallyAlteredConfigs, _steps, replaces=False)
        astray += unusable

        def refuse(
            part: IncrementalAlterConfigsRequest, error: ErrorCode, message: str | None
        ) -> IncrementalAlterConfigsResponse:
            refused = [_failed(IncrementallyAlteredConfigs, each, error, message) for each in part.resources]
            return IncrementalAlterConfigsResponse(responses=refused)

        # An unknown operation makes the whole request fail.
        size = ALTERED_AT_ONCE if all(unknown_operation(_steps(each)) is None for each in here) else len(here)
        response = await self._forwarding.ask_in_parts(
            call,
            (replace(request, resources=part) for part in entries_in_parts(here, key=_target, size=size)),
            lambda controller, part: controller.incremental_alter_configs(part),
            refuse,
            IncrementalAlterConfigsResponse,
            lambda joined, more: joined.responses.extend(more.responses),
        )
        response.responses += astray + answered
        return response

    def _levels_altered(
        self, request: IncrementalAlterConfigsRequest
    ) -> tuple[list[AlterConfigsResource], list[IncrementallyAlteredConfigs]]:
        """The resources that are not loggers of this broker, and the answers for those that are."""
        loggers = [each for each in request.resources if each.resource_type == ResourceType.BROKER_LOGGER]
        answered = []
        times = Counter(each.resource_name for each in loggers)
        for resource in loggers:
            failure: Failure | None
            if times[resource.resource_name] > 1:
                failure = Failure(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            else:
                failure = self._levels.alter(
                    resource.resource_name, _steps(resource), validate_only=request.validate_only
                )
            failure = failure or Failure(ErrorCode.NONE)
            answered.append(_failed(IncrementallyAlteredConfigs, resource, failure.error, failure.message))
        return [each for each in request.resources if each.resource_type != ResourceType.BROKER_LOGGER], answered

    def _split(self, call: Call, resources: Iterable[E], result: Callable[..., R]) -> tuple[list[E], list[R]]:
        """The resources that this broker can alter, and refusals of the others: of brokers only itself (KIP-226)."""
        here, astray = [], []
        for resource in resources:
            failure = (
                None if call.is_broker else misdirected(resource.resource_type, resource.resource_name, self._node_id)
            )
            if failure is None:
                here.append(resource)
            else:
                astray.append(_failed(result, resource, failure.error, failure.message))
        return here, astray

    def _usable(
        self,
        call: Call,
        resources: list[E],
        result: Callable[..., R],
        steps_of: Callable[[E], list[Step]],
        *,
        replaces: bool,
    ) -> tuple[list[E], list[R]]:
        """The changes that this broker's listeners can apply, and refusals: other brokers lack the files."""
        usable, refused = [], []
        for resource in resources:
            failure = None
            if resource.resource_type == ResourceType.BROKER and not call.is_broker:
                steps = steps_of(resource)
                unknown = unknown_operation(steps)
                if unknown is not None and malformed(steps) is None:
                    failure = Failure(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown}")
                elif resource.resource_name:
                    failure = self._certificates.complaint(steps, replaces=replaces)
            if failure is None:
                usable.append(resource)
            else:
                refused.append(_failed(result, resource, failure.error, failure.message))
        return usable, refused

    @endpoint(LIST_CONFIG_RESOURCES, needs=allowed_on_cluster(AclOperation.DESCRIBE_CONFIGS))
    async def list_config_resources(self, call: Call[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
        """ListConfigResources (key 74), versions 0 and 1; version 0 lists only client metrics (KIP-1000)."""
        request = call.request
        names = self._listed()
        all_types = call.version >= ALL_TYPES_SINCE
        wanted = (request.resource_types or list(names)) if all_types else [ResourceType.CLIENT_METRICS]
        if not set(wanted) <= names.keys():
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=resource_type)
                for resource_type, listed in names.items()
                if resource_type in wanted
                for name in listed
            ]
        )

    def _listed(self) -> Mapping[int, Iterable[str]]:
        image = self._metadata.image
        brokers = [str(broker) for broker in image.brokers]

        def configured(kind: ResourceType) -> list[str]:
            return [name for resource_type, name in image.configs if resource_type == kind]

        return {
            ResourceType.GROUP: configured(ResourceType.GROUP),
            ResourceType.CLIENT_METRICS: configured(ResourceType.CLIENT_METRICS),
            ResourceType.BROKER_LOGGER: brokers,
            ResourceType.BROKER: brokers,
            ResourceType.TOPIC: image.topics,
        }


def _unanswered(resource: DescribeConfigsResource, error: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _texts(resource_type: int, *, asked: bool) -> Callable[[str], str | None] | None:
    if resource_type == ResourceType.BROKER_LOGGER:
        return lambda _: ""
    if not asked:
        return None
    from odradek.config import texts as table  # few clients ask for logger levels

    texts = {
        ResourceType.TOPIC: table.TOPIC_TEXTS.get,
        ResourceType.GROUP: table.GROUP_TEXTS.get,
        ResourceType.CLIENT_METRICS: table.CLIENT_METRICS_TEXTS.get,
    }
    return texts.get(ResourceType(resource_type), table.broker_text)


def _shown(
    entry: Entry, request: DescribeConfigsRequest, version: int, text_of: Callable[[str], str | None] | None
) -> DescribeConfigsResourceResult:
    shown = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_sensitive=entry.sensitive,
        config_type=entry.kind,
        documentation=None if text_of is None else text_of(entry.name),
    )
    if version < SOURCES_SINCE:
        shown.is_default = entry.is_default
        return shown
    shown.config_source = entry.source
    if request.include_synonyms:
        shown.synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in entry.synonyms]
    return shown


def _target(resource: _Resource) -> Hashable:
    return resource.resource_type, resource.resource_name


def _plain_steps(resource: AlterPlainly) -> list[Step]:
    return [Step(config.name, Operation.SET, config.value) for config in resource.configs]


def _steps(resource: AlterConfigsResource) -> list[Step]:
    return [Step(config.name, config.config_operation, config.value) for config in resource.configs]


def _failed(result: Callable[..., R], resource: _Resource, error: ErrorCode, message: str | None) -> R:
    return result(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
