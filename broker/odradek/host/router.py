"""From an API key and version to the function that serves it.

`SERVED` lists all APIs of a broker; the answer to ApiVersions follows from it and from the broker's release.
The family of an API and the codecs of its messages are imported and made at its first request.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.host.bodies import Api
from odradek.host.call import Call, CloseConnection, Serve
from odradek.host.endpoint import Everybody, Guard, endpoints_of
from odradek.host.overlay import overlays_of
from odradek.host.served import SERVED, Served
from odradek.releases.release import Release
from odradek.releases.table import WIDEST
from odradek.wire import registry
from odradek.wire.codecs import PLAIN
from odradek.wire.error_fields import replace_errors
from odradek.wire.errors import ErrorCode
from odradek.wire.long import long_reader, long_writer
from odradek.wire.primitives import Splices
from odradek.wire.registry import APIS, ApiKey, Reader, Writer

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.host import Host

__all__ = ["Call", "CloseConnection", "Handler", "Router", "SERVED", "Serve"]


SHARED_ENTRIES_MAX = 20_000
ENTRIES_MAX = 10_000
"""Number of entries, in all its arrays, of a request above 32 KiB. Kafka allows a million in each array."""


class Handler(Struct):
    """Everything needed to serve one version of one API."""

    api_key: ApiKey
    version: int
    read: Reader[Struct]
    write: Writer[Struct]
    flexible_request: bool
    response_start: int
    """Where a response begins: after its length and correlation id, and the empty tagged fields of a flexible one."""
    serve: Serve
    entries_max: int
    api: Api

    def read_long(self, frame: memoryview, position: int) -> Generator[int, None, tuple[Struct, int]]:
        """Decode a long request in parts."""
        return long_reader(self.api.request_type, self.version)(frame, position)

    def write_long(self, response: Struct, out: bytearray, splices: Splices) -> Generator[int, None, None]:
        """Encode a long response in parts."""
        return long_writer(self.api.response_type, self.version)(response, out, splices)


class Router:
    """The APIs of one node, by key and version, within its release.

    Without a node it can look up, but not serve.
    """

    def __init__(
        self,
        release: Release = WIDEST,
        *,
        unstable_versions: bool = False,
        tells_all: bool = False,
        node: Host | None = None,
        apis: Sequence[Served] = SERVED,
    ) -> None:
        self._node = node
        self._codecs = release.codecs or PLAIN
        self._overlays = overlays_of(release)
        self._told: list[tuple[ApiKey, int, int]] = []
        self._versions: dict[int, range] = {}
        self._handlers: dict[tuple[int, int], Handler | None] = {}
        self.known: dict[tuple[int, int], Handler] = {}
        """The handlers that clients have used, by API key and version."""
        self._by_key = {served.api_key: served for served in apis}
        self._for_brokers = frozenset(served.api_key for served in apis if not served.is_for_clients)
        for served in apis:
            api_key, low, high = served.api_key, served.lowest, served.highest
            if not served.is_for_clients:
                self._versions[api_key] = range(low, high + 1)
                continue
            if served.is_unstable and not unstable_versions:
                high -= 1
            if release.apis is None and served.is_draft:
                continue
            if release.apis is not None:
                offered = release.apis.get(api_key.name)
                if offered is None:
                    continue
                low = max(low, offered[0])
                high = offered[1]
                if unstable_versions:
                    high = max(high, release.unstable_apis.get(api_key.name, 0))
            if served.is_told or tells_all:
                self._told.append((api_key, low, high))
            self._versions[api_key] = range(low, high + 1)
        if release.lowest_produce:
            self._versions[ApiKey.PRODUCE] = range(release.lowest_produce, self._versions[ApiKey.PRODUCE].stop)

    def is_overlaid(self, api_key: ApiKey) -> bool:
        """Whether a dialect has a step around this API."""
        return api_key in self._overlays.steps

    def ranges(self) -> list[tuple[ApiKey, int, int]]:
        """The list for ApiVersions: key, lowest and highest version."""
        return self._told

    def serves(self, api_key: ApiKey, versions: range | None) -> bool:
        """Whether an API is served in one of these versions; None: in any."""
        served = self._versions.get(api_key)
        return served is not None and (versions is None or any(version in served for version in versions))

    def newest(self, api_key: ApiKey) -> int:
        """The highest version that is served, which brokers of this release use among themselves."""
        return self._versions[api_key][-1]

    @cached_property
    def own(self) -> frozenset[ApiKey]:
        """APIs that the broker can call itself without a message: newest version, no dialect."""
        if not self._codecs.is_plain:
            return frozenset()
        newest = (ApiKey(key) for key, served in self._versions.items() if served[-1] == APIS[ApiKey(key)].highest)
        return frozenset(api_key for api_key in newest if not self.is_overlaid(api_key))

    def handler(self, api_key: int, version: int, *, broker: bool) -> Handler | None:
        """The handler of a request, or None."""
        try:
            handler = self._handlers[api_key, version]
        except KeyError:
            handler = self._handlers[api_key, version] = self._find(api_key, version)
        if handler is None or (not broker and handler.api_key in self._for_brokers):
            return None
        if not broker:
            self.known[api_key, version] = handler
        return handler

    def _find(self, api_key: int, version: int) -> Handler | None:
        if version not in self._versions.get(api_key, ()):
            return None
        served = self._by_key[ApiKey(api_key)]
        key, codecs = served.api_key, self._codecs
        serve = _not_made if self._node is None else self._serve(self._node, served, version)
        return Handler(
            api_key=key,
            version=version,
            read=codecs.reader(registry.request_type(key), version),
            write=codecs.writer(registry.response_type(key), version),
            flexible_request=codecs.request_header_version(key, version) >= 2,
            response_start=9 if codecs.response_header_version(key, version) >= 1 else 8,
            serve=serve,
            entries_max=SHARED_ENTRIES_MAX if served.in_parts else ENTRIES_MAX,
            api=Api(key, version, codecs.request_type(key), codecs.response_type(key)),
        )

    def _serve(self, node: Host, served: Served, version: int) -> Serve:
        """The method of the endpoint, with the dialect's step, older errors, and permissions around it."""
        family = node.family(served.family)
        endpoint = endpoints_of(type(family))[served.api_key]
        serve: Serve = partial(endpoint.method, family)
        older = {since.error: since.before for since in endpoint.errors if version < since.version}
        if older:
            serve = partial(_in_older_words, serve, older)
        for overlay in self._overlays.steps.get(served.api_key, ()):
            if version >= overlay.since:
                serve = overlay.over(node, serve)
        if node.authority is None or isinstance(endpoint.needs, Everybody):
            return serve
        return partial(_guarded, node.authority, endpoint.needs.guard, serve)


async def _in_older_words(serve: Serve, older: Mapping[ErrorCode, ErrorCode], call: Call) -> Struct | None:
    response = await serve(call)
    if response is not None:
        replace_errors(response, older)
    return response


async def _guarded(
    authority: Authority, guard: Guard[Struct, Struct | None], serve: Serve, call: Call
) -> Struct | None:
    """Permissions are checked for clients, not for brokers."""
    return await (serve(call) if call.is_broker else guard(authority, call, serve))


async def _not_made(call: Call) -> Struct | None:
    raise AssertionError("this router only looks up")
