"""From the name of an API and fields in plain values to a request."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from tests.oracle.language import LanguageError

from odradek.wire import registry
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec, snake_case

__all__ = ["api_key", "build_request"]


def api_key(name: str) -> ApiKey:
    """The key of an API by its name in the schemas: `EndTxn`."""
    try:
        return ApiKey[snake_case(name).upper()]
    except KeyError:
        raise LanguageError(f"no such request: {name}") from None


def build_request(api: ApiKey, fields: Mapping[str, Any]) -> Struct:
    """The request with these fields; those not named have the schema's defaults."""
    cls = registry.request_type(api)
    return build_struct(cls, registry.spec(cls).root, fields)


def build_struct(cls: type[Struct], spec: StructSpec, fields: Mapping[str, Any]) -> Struct:
    known = {field.python_name: field for field in spec.fields}
    if unknown := fields.keys() - known.keys():
        raise LanguageError(f"{spec.name} has no field {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    return cls(**{name: build_value(cls, known[name], value) for name, value in fields.items()})


def build_value(cls: type[Struct], field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.struct is None:
        return value.encode() if field.kind in ("bytes", "records") and isinstance(value, str) else value
    nested: type[Struct] = getattr(sys.modules[cls.__module__], field.struct.name)
    if field.is_array:
        return [build_struct(nested, field.struct, element) for element in value]
    return build_struct(nested, field.struct, value)
