"""A request of any version of any API in which every list has two entries and every field another value."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from odradek.wire import registry
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec

__all__ = ["sample"]


def sample(api_key: ApiKey, version: int) -> Any:
    """The request; `acks` is -1, so that a Produce wants an answer."""
    request_type = registry.request_type(api_key)
    request = _Filling(request_type, version).struct(registry.spec(request_type).root)
    if api_key is ApiKey.PRODUCE:
        request.acks = -1
    registry.encode(request, version)
    return request


class _Filling:
    def __init__(self, request_type: type[msgspec.Struct], version: int) -> None:
        self._module = sys.modules[request_type.__module__]
        self._version = version
        self._count = 0

    def struct(self, spec: StructSpec) -> Any:
        made = getattr(self._module, spec.name)()
        for field in spec.present(self._version):
            value = [self.value(field) for _ in range(2)] if field.is_array else self.value(field)
            setattr(made, field.python_name, value)
        return made

    def value(self, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        self._count += 1
        count = self._count
        match field.kind:
            case "bool":
                return True
            case "string":
                return f"s{count}"
            case "float64":
                return float(count)
            case "uuid":
                return count.to_bytes(16, "big")
            case "bytes":
                return b""
            case "records":
                return None
            case _:
                return count % 100
