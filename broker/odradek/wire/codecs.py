"""The messages of one node: Kafka's, except those that its dialect changes.

A changed message has a class of its own, a subclass of Kafka's with its own readers and writers. Code that builds and
reads messages uses Kafka's class, and the node's `Codecs` finds the class for the wire. It is looked up once per API
and version, so a broker without a dialect pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec.structs import asdict

from odradek.wire import registry
from odradek.wire.primitives import Splices
from odradek.wire.registry import ApiKey, Reader, Writer

if TYPE_CHECKING:
    from types import ModuleType

    from odradek.wire.handover import Hand

__all__ = ["PLAIN", "Codecs"]

M = TypeVar("M", bound=msgspec.Struct)


class Codecs:
    """Readers and writers by the ordinary class of a message. `changed` are the dialect's classes."""

    def __init__(self, changed: Iterable[type[msgspec.Struct]] = ()) -> None:
        self._changed: dict[type[msgspec.Struct], type[msgspec.Struct]] = {_ordinary(cls): cls for cls in changed}
        self._widen = {cls: _widener(sys.modules[cls.__module__]) for cls in self._changed.values()}
        self._hands: dict[tuple[type[msgspec.Struct], int], Hand] = {}

    @property
    def is_plain(self) -> bool:
        """Whether all messages are the ordinary ones."""
        return not self._changed

    @property
    def changed(self) -> list[type[msgspec.Struct]]:
        """Kafka's classes of the messages that the dialect changes."""
        return list(self._changed)

    def type_of(self, cls: type[M]) -> type[M]:
        """The class of this message at this node: Kafka's, or a subclass that may have more fields."""
        return cast("type[M]", self._changed.get(cls, cls))

    def request_type(self, api_key: int) -> type[msgspec.Struct]:
        """Raises KeyError for an unknown API."""
        return self.type_of(registry.request_type(api_key))

    def response_type(self, api_key: int) -> type[msgspec.Struct]:
        """Raises KeyError for an unknown API."""
        return self.type_of(registry.response_type(api_key))

    def own(self, message: M, **more: object) -> M:
        """The message as an instance of this node's class with these fields; unchanged if it is one already."""
        cls = self._changed.get(type(message))
        if cls is None and not more:
            return message
        kind = cls or type(message)
        widen = self._widen.get(kind) or _same
        fields = {name: widen(held) for name, held in asdict(message).items()}
        return cast("M", kind(**(fields | more)))

    def reader(self, cls: type[M], version: int) -> Reader[M]:
        """The reader of one version. Raises ValueError for a version that the message does not have."""
        return registry.reader(self.type_of(cls), version)

    def writer(self, cls: type[M], version: int) -> Writer[M]:
        """The writer of one version; it takes messages of the ordinary class too."""
        own = self._changed.get(cls)
        if own is None:
            return registry.writer(cls, version)
        write = cast("Writer[M]", registry.writer(own, version))
        widen = self._widen[own]
        if widen is None:
            return write
        return lambda message, out, splices: write(cast("M", widen(message)), out, splices)

    def encode(self, message: msgspec.Struct, version: int) -> bytes:
        """A whole message as bytes."""
        if self.is_plain or not isinstance(message, tuple(self._changed)):
            return registry.encode(message, version)
        cls = next(cls for cls in self._changed if isinstance(message, cls))
        out = bytearray()
        splices: Splices = []
        self.writer(cls, version)(message, out, splices)
        return b"".join(registry.join(out, splices)) if splices else bytes(out)

    def hand(self, cls: type[msgspec.Struct], version: int) -> Hand:
        """The function that hands a message over within the process. Raises ValueError for an unknown version.

        The class is the ordinary one, or that of this node: a client of the same dialect has messages of the latter.
        """
        made = self._hands.get((cls, version))
        if made is None:
            made = self._hands[cls, version] = self._hand(cls, version)
        return made

    def _hand(self, cls: type[msgspec.Struct], version: int) -> Hand:
        from odradek.wire.handover import hand, through_bytes  # a single broker hands messages to no other

        ordinary = _ordinary(cls) if cls in self._widen else cls
        if ordinary not in self._changed:
            return hand(ordinary, version)
        return through_bytes(self.reader(ordinary, version), self.writer(ordinary, version))

    def valid_versions(self, cls: type[msgspec.Struct]) -> tuple[int, int]:
        """The lowest and the highest version that can be read and written."""
        return registry.valid_versions(self.type_of(cls))

    def newest_version(self, api_key: ApiKey) -> int:
        """The highest version of a request."""
        if self.is_plain:
            return registry.newest_version(api_key)
        return self.valid_versions(registry.request_type(api_key))[1]

    def request_header_version(self, api_key: ApiKey, version: int) -> int:
        """The version of the header in front of a request. Raises KeyError for an unknown API."""
        own = None if self.is_plain else self._changed.get(registry.request_type(api_key))
        if own is None:
            return registry.request_header_version(api_key, version)
        return 2 if registry.is_flexible(own, version) else 1

    def response_header_version(self, api_key: ApiKey, version: int) -> int:
        """The version of the header in front of a response. Raises KeyError for an unknown API."""
        own = None if self.is_plain else self._changed.get(registry.response_type(api_key))
        if own is None or api_key == ApiKey.API_VERSIONS:
            return registry.response_header_version(api_key, version)
        return 1 if registry.is_flexible(own, version) else 0

    def api_of(self, request: msgspec.Struct) -> ApiKey:
        """The API of a request, of the ordinary class or of this node's. Raises KeyError for what is none."""
        cls = type(request)
        return registry.api_of(_ordinary(cls) if cls in self._widen else cls)


def _ordinary(cls: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The class that a dialect's message stands for."""
    (base,) = cls.__bases__
    return cast("type[msgspec.Struct]", base)


def _same(value: object) -> object:
    return value


def _widener(module: ModuleType) -> Callable[[object], object] | None:
    """A function that makes a dialect's structs from ordinary ones; None if they have the same fields."""
    kinds = {_ordinary(cls): cls for cls in vars(module).values() if _is_struct_of(module, cls) and _is_below(cls)}
    if all(set(cls.__struct_fields__) == set(base.__struct_fields__) for base, cls in kinds.items()):
        return None
    known = {*kinds, *kinds.values()}

    def widen(value: object) -> object:
        if isinstance(value, list):
            return [widen(each) for each in value] if value and type(value[0]) in known else value
        if not isinstance(value, msgspec.Struct) or type(value) not in known:
            return value
        cls = type(value)
        return kinds.get(cls, cls)(**{name: widen(held) for name, held in asdict(value).items()})

    return widen


def _is_struct_of(module: ModuleType, value: object) -> bool:
    return isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__


def _is_below(cls: type[msgspec.Struct]) -> bool:
    return cls.__bases__ != (msgspec.Struct,)


PLAIN = Codecs()
"""The messages as Kafka has them."""
