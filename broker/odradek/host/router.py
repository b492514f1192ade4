"""From an API key and version to the code that serves it.

`SERVED` is the whole list of what a broker can answer; the answer to ApiVersions is derived from it, and from the
release that the broker is served as.
The family of an API, and the codecs of its messages, are imported and made when its first request arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from odradek.host.bodies import Api
from odradek.host.call import Around, Call, CloseConnection, Serve
from odradek.host.endpoint import Everybody, endpoints_of
from odradek.host.served import SERVED, Served
from odradek.releases import WIDEST, Release
from odradek.wire import registry
from odradek.wire.codecs import PLAIN
from odradek.wire.error_fields import replace_errors
from odradek.wire.errors import ErrorCode
from odradek.wire.long import long_reader, long_writer
from odradek.wire.primitives import Splices
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.access.authority import Authority

__all__ = ["Around", "Call", "CloseConnection", "Handler", "HasRouter", "Router", "SERVED", "Serve"]


class HasRouter(Protocol):
    """What is served, and in which versions."""

    @property
    def router(self) -> Router: ...


SHARED_ENTRIES_MAX = 20_000
ENTRIES_MAX = 10_000
"""How many entries a request of more than 32 KiB may have, in all its arrays. Kafka takes a million in each."""


class Handler(Struct):
    """All that serving one version of one API needs."""

    api_key: ApiKey
    version: int
    read: Callable[[memoryview, int], tuple[Any, int]]
    write: Callable[[Any, bytearray, list[tuple[int, memoryview]]], None]
    flexible_request: bool
    response_start: int
    """Where a response begins: behind its length and correlation id, and no tagged fields where it is flexible."""
    serve: Serve
    entries_max: int
    api: Api

    def read_long(self, frame: memoryview, position: int) -> Generator[int, None, tuple[Any, int]]:
        """Read a long request, and give way."""
        return long_reader(self.api.request_type, self.version)(frame, position)

    def write_long(self, response: Any, out: bytearray, splices: Splices) -> Generator[int, None, None]:
        """Write a long response, and give way."""
        return long_writer(self.api.response_type, self.version)(response, out, splices)


class Router:
    """The APIs of one node, by key and version: those that its release has, in the versions that it has.

    `family` makes a family by its name in `SERVED`. Without one nothing can be served, but looked up.
    """

    def __init__(
        self,
        release: Release = WIDEST,
        *,
        unstable_versions: bool = False,
        tells_all: bool = False,
        node: Any = None,
        authority: Authority | None = None,
        family: Callable[[str], object] | None = None,
        apis: Sequence[Served] = SERVED,
    ) -> None:
        self._node = node
        self._authority = authority
        self._make_family = family
        self._families: dict[str, object] = {}
        self._codecs = release.codecs or PLAIN
        self._around = release.around
        self._told: list[tuple[ApiKey, int, int]] = []
        self._versions: dict[int, range] = {}
        self._handlers: dict[tuple[int, int], Handler | None] = {}
        self.known: dict[tuple[int, int], Handler] = {}
        """The handlers for clients that were found before, by API key and version."""
        self._by_key = {served.api_key: served for served in apis}
        self._for_brokers = frozenset(served.api_key for served in apis if not served.is_for_clients)
        for served in apis:
            api_key, low, high = served.api_key, served.lowest, served.highest
            if not served.is_for_clients:
                self._versions[api_key] = range(low, high + 1)
                continue
            if served.is_unstable and not unstable_versions:
                high -= 1
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

    def ranges(self) -> list[tuple[ApiKey, int, int]]:
        """What ApiVersions lists: key, lowest and highest version."""
        return self._told

    def serves(self, api_key: ApiKey, versions: range | None) -> bool:
        """Whether an API is served in one of these versions, or, with None, in any."""
        served = self._versions.get(api_key)
        return served is not None and (versions is None or any(version in served for version in versions))

    def newest(self, api_key: ApiKey) -> int:
        """The highest version that is served: what brokers of this release speak to one another."""
        return self._versions[api_key][-1]

    def handler(self, api_key: int, version: int, *, broker: bool) -> Handler | None:
        """The handler of a request, or None where there is none."""
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
        serve = _not_made if self._make_family is None else self._serve(served, version)
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

    def _serve(self, served: Served, version: int) -> Serve:
        """The method of the endpoint; around it the step of the dialect, the older errors, and the permissions."""
        family = self._families.get(served.family)
        if family is None:
            assert self._make_family is not None
            family = self._families[served.family] = self._make_family(served.family)
        endpoint = endpoints_of(type(family))[served.api_key]
        serve: Serve = partial(endpoint.method, family)
        older = {since.error: since.before for since in endpoint.errors if version < since.version}
        if older:
            serve = partial(_in_older_words, serve, older)
        serve = self._with_around(served.api_key, serve)
        if self._authority is None or isinstance(endpoint.needs, Everybody):
            return serve
        return partial(_guarded, self._authority, endpoint.needs.guard, serve)

    def _with_around(self, api_key: ApiKey, serve: Serve) -> Serve:
        around = self._around.get(api_key)
        return serve if around is None else lambda call: around(self._node, call, serve)


async def _in_older_words(serve: Serve, older: Mapping[ErrorCode, ErrorCode], call: Call) -> object:
    response = await serve(call)
    replace_errors(response, older)
    return response


async def _guarded(authority: Authority, guard: Callable[..., Any], serve: Serve, call: Call) -> object:
    """Clients are asked for their permissions, brokers are not."""
    return await (serve(call) if call.is_broker else guard(authority, call, serve))


async def _not_made(call: Call) -> object:
    raise AssertionError("this router only looks up")
