"""Messages in the JSON form of Kafka's converters, as vector files hold them.

Names begin with a small letter.
A field that the version does not have is absent, and so is a tagged one with its default.
Bytes and records are base64, a uuid is base64url without padding.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from odradek.wire import registry
from odradek.wire.errors import EncodeError, ErrorCode
from odradek.wire.primitives import uuid_text
from odradek.wire.schema import Field, Json, StructSpec, Value

__all__ = ["from_json", "response_of", "to_json"]

_Classes: TypeAlias = Mapping[str, type[msgspec.Struct]]


def to_json(message: msgspec.Struct, version: int) -> dict[str, Json]:
    """The message as the value that `json.dumps` takes."""
    spec = registry.spec(type(message))
    return _struct_to_json(spec.root, message, version)


def from_json(cls: type[msgspec.Struct], value: Mapping[str, object], version: int) -> msgspec.Struct:
    """The message with this JSON form. Raises ValueError if there is none."""
    spec = registry.spec(cls)
    return _struct_from_json(registry.struct_types(cls), spec.root, value, version)


def response_of(cls: type[msgspec.Struct], value: Mapping[str, object], version: int) -> msgspec.Struct:
    """The message of this JSON form; missing fields have their defaults, and error codes may be names.

    Fields of other versions are ignored. Raises ValueError for fields that no version has, and for values that cannot
    be written.
    """
    spec = registry.spec(cls)
    message = _filled(registry.struct_types(cls), spec.root, value, version, spec.root.name)
    _prove(message, version)
    return message


def _filled(classes: _Classes, struct: StructSpec, value: object, version: int, path: str) -> msgspec.Struct:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} is an object, not {value!r}")
    fields = {field.json_name: field for field in struct.fields}
    if unknown := value.keys() - fields.keys():
        names = ", ".join(map(str, sorted(unknown)))
        raise ValueError(f"{path} has no field {names}: it has {', '.join(fields)}")
    message = classes[struct.name]()
    for name, content in value.items():
        field = fields[name]
        if version in field.versions:
            field.put(message, _filling(classes, field, content, version, f"{path}.{name}"))
    return message


def _filling(classes: _Classes, field: Field, content: object, version: int, path: str) -> Value:
    if content is None:
        return None
    if field.is_array and not isinstance(content, list):
        raise ValueError(f"{path} is an array, not {content!r}")
    if field.struct is not None:
        struct = field.struct
        if isinstance(content, list) and field.is_array:
            return [_filled(classes, struct, each, version, f"{path}[{index}]") for index, each in enumerate(content)]
        return _filled(classes, struct, content, version, path)
    if field.python_name.endswith("error_code") and isinstance(content, str):
        if content not in ErrorCode.__members__:
            raise ValueError(f"{path}: there is no error {content}")
        return ErrorCode[content]
    try:
        return _field_from_json(classes, field, content, version)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _prove(message: msgspec.Struct, version: int) -> None:
    try:
        registry.encode(message, version)
    except EncodeError as error:
        raise ValueError(str(error)) from None


def _struct_to_json(struct: StructSpec, value: msgspec.Struct, version: int) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        content = field.of(value)
        if version in field.tagged and _is_default(field, content):
            continue
        result[field.json_name] = _field_to_json(field, content, version)
    return result


def _is_default(field: Field, value: Value) -> bool:
    if field.default is ...:
        return value is not None and bool(value == type(value)())
    return bool(value == [] if field.default == () else value == field.default)


def _field_to_json(field: Field, value: Value, version: int) -> Json:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value_to_json(field, element, version) for element in value]
    return _value_to_json(field, value, version)


def _value_to_json(field: Field, value: Value, version: int) -> Json:
    if isinstance(value, msgspec.Struct):
        assert field.struct is not None, f"{field.name} is a {field.kind}"
        return _struct_to_json(field.struct, value, version)
    if isinstance(value, bytes | bytearray | memoryview):
        if field.kind == "uuid":
            return uuid_text(value)
        return base64.b64encode(value).decode()
    assert isinstance(value, bool | int | float | str), f"{field.name} is a {field.kind}"
    return value


def _struct_from_json(classes: _Classes, struct: StructSpec, value: object, version: int) -> msgspec.Struct:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a {struct.name}")
    fields = {field.json_name: field for field in struct.fields if version in field.versions}
    if unknown := value.keys() - fields.keys():
        raise ValueError(f"{struct.name} has no field {', '.join(sorted(unknown))} in version {version}")
    missing = [name for name, field in fields.items() if name not in value and version not in field.tagged]
    if missing:
        raise ValueError(f"{struct.name} lacks {', '.join(missing)}")
    made = classes[struct.name]()
    for name, element in value.items():
        fields[name].put(made, _field_from_json(classes, fields[name], element, version))
    return made


def _field_from_json(classes: _Classes, field: Field, value: object, version: int) -> Value:
    if value is None:
        return None
    if field.is_array:
        if not isinstance(value, list):
            raise ValueError(f"{field.name}: {value!r} is not an array")
        return [_value_from_json(classes, field, element, version) for element in value]
    return _value_from_json(classes, field, value, version)


def _value_from_json(classes: _Classes, field: Field, value: object, version: int) -> Value:
    if field.struct is not None:
        return _struct_from_json(classes, field.struct, value, version)
    match field.kind, value:
        case (("bytes" | "records"), str()):
            return base64.b64decode(value, validate=True)
        case "uuid", str():
            return base64.urlsafe_b64decode(value + "==")
        case "float64", (str() | int() | float()):
            return float(value)  # what JSON has no number for is a text
        case _, (bool() | int() | float() | str()):
            return value
    raise ValueError(f"{value!r} is no {field.kind}")
