"""What we write is read by codecs that others wrote, with the same fields.

kio has every message of Kafka 4, aiokafka the versions before that, kafka-protocol two messages.
Fields are compared by position: all of them, and the schemas, keep the order of the wire.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import pkgutil
import uuid
from collections.abc import Iterator
from io import BytesIO
from typing import Any, ClassVar

import aiokafka.protocol
import kio.schema.index
import kio.serial
import pytest
from aiokafka.protocol.struct import Struct as AiokafkaStruct
from tests.unit.wire.helpers import MESSAGES, numbered_message

from odradek.wire import registry
from odradek.wire.messages import MODULES
from odradek.wire.schema import Field, StructSpec

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def plain(struct: StructSpec, message: Any, version: int) -> tuple[Any, ...]:
    """Our message as nested tuples, with the fields of this version only."""
    return tuple(
        _plain_field(field, getattr(message, field.python_name), version)
        for field in struct.fields
        if version in field.versions
    )


def _plain_field(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return tuple(_plain_field(field, element, version) for element in value)
    if field.struct is not None and value is not None:
        return plain(field.struct, value, version)
    return bytes(value) if isinstance(value, memoryview) else value


def leaves(value: Any) -> list[Any]:
    return [leaf for element in value for leaf in leaves(element)] if isinstance(value, tuple) else [value]


class TestKio:
    @staticmethod
    def versions(name: str) -> Iterator[tuple[int, Any]]:
        """The classes that kio has for the message."""
        spec = registry.spec(registry.message_type(name))
        module = spec.module_name
        for suffix in ("_request", "_response"):
            if spec.type in ("request", "response"):
                module = module.removesuffix(suffix)
        for version, paths in kio.schema.index.schema_name_map.get(module, {}).items():
            for kind, path in paths.items():
                if kind.name == spec.type:
                    yield version, getattr(importlib.import_module(path.split(":")[0]), path.split(":")[1])

    @classmethod
    def plain(cls, value: Any) -> Any:
        """Kio's entity as nested tuples, its richer types as numbers again."""
        if dataclasses.is_dataclass(value):
            return tuple(cls.plain(getattr(value, field.name)) for field in dataclasses.fields(value))
        match value:
            case tuple():
                return tuple(cls.plain(element) for element in value)
            case datetime.timedelta():
                return value // datetime.timedelta(milliseconds=1)
            case datetime.datetime():
                return (value - EPOCH) // datetime.timedelta(milliseconds=1)
            case uuid.UUID():
                return value.bytes
            case _:
                return value

    @pytest.mark.parametrize("name", MESSAGES)
    def test_reads_what_we_write(self, name: str) -> None:
        cls = registry.message_type(name)
        for version, entity in self.versions(name):
            message = numbered_message(cls, version)
            encoded = registry.encode(message, version)
            decoded, size = kio.serial.entity_reader(entity)(encoded, 0)
            assert len(encoded) == size
            assert plain(registry.spec(cls).root, message, version) == self.plain(decoded), version

    def test_knows_nearly_all(self) -> None:
        """So that the test above cannot pass because it finds nothing."""
        known = {name for name in MESSAGES if any(True for _ in self.versions(name))}
        requests = {name for name in MESSAGES if name.endswith("Request")}
        removed = {"ControlledShutdownRequest", "LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest"}
        newer = {"StreamsGroupTopologyDescriptionUpdateRequest", "UnregisterControllerRequest"}
        newer.add("TxnShareAcknowledgeRequest")  # a draft
        assert removed | newer == requests - known


def aiokafka_classes() -> dict[tuple[int, bool, int], type[AiokafkaStruct]]:
    """By API key, whether it is a request, and version."""
    found = {}
    for info in pkgutil.iter_modules(aiokafka.protocol.__path__):
        for cls in vars(importlib.import_module(f"aiokafka.protocol.{info.name}")).values():
            if isinstance(cls, type) and issubclass(cls, AiokafkaStruct):
                key, version = getattr(cls, "API_KEY", None), getattr(cls, "API_VERSION", None)
                if isinstance(key, int) and isinstance(version, int):
                    found[key, "Request" in cls.__name__, version] = cls
    return found


def flexible(api_key: int, is_request: bool, version: int) -> bool:
    cls = registry.request_type(api_key) if is_request else registry.response_type(api_key)
    return registry.is_flexible(cls, version)


class TestAiokafka:
    CLASSES = aiokafka_classes()
    # It declares the leader epoch of ListOffsets 4 and 5 as an int64.
    WRONG = frozenset({(2, True, 4), (2, True, 5)})
    # It keeps the tagged fields of a struct as one more field.
    FLEXIBLE = frozenset(key for key in CLASSES if flexible(*key))

    @staticmethod
    def plain(value: Any) -> Any:
        if isinstance(value, AiokafkaStruct):
            return tuple(TestAiokafka.plain(getattr(value, name)) for name in value.SCHEMA.names)
        if isinstance(value, list | tuple):
            return tuple(TestAiokafka.plain(element) for element in value)
        return value

    @pytest.mark.parametrize("key", sorted(CLASSES.keys() - WRONG - FLEXIBLE), ids=str)
    def test_reads_what_we_write(self, key: tuple[int, bool, int]) -> None:
        api_key, is_request, version = key
        cls = registry.request_type(api_key) if is_request else registry.response_type(api_key)
        message = numbered_message(cls, version)
        stream = BytesIO(registry.encode(message, version))
        decoded = self.CLASSES[key].decode(stream)
        assert b"" == stream.read()
        # Some of its structs are flatter than the schemas', so leaves are compared.
        assert leaves(plain(registry.spec(cls).root, message, version)) == leaves(self.plain(decoded))


class TestKafkaProtocol:
    """Its types for uuids and null compact values do not work, which leaves the versions below 10."""

    CASES: ClassVar = {
        "ApiVersionsRequest": range(4),
        "ApiVersionsResponse": range(4),
        "MetadataRequest": range(10),
        "MetadataResponse": range(10),
    }

    @staticmethod
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(TestKafkaProtocol.plain(element) for element in value)
        if hasattr(value, "_fields"):
            return tuple(
                TestKafkaProtocol.plain(getattr(value, name)) for name, _ in value._fields if name != "_tagged_fields"
            )
        return value

    @pytest.mark.parametrize("name", CASES)
    def test_reads_what_we_write(self, name: str) -> None:
        module = importlib.import_module(f"kafkaprotocol.{MODULES[name]}")
        cls = registry.message_type(name)
        for version in self.CASES[name]:
            message = numbered_message(cls, version)
            for field in registry.spec(cls).root.fields:
                if version in field.tagged:  # it knows tags by number only
                    setattr(message, field.python_name, getattr(cls(), field.python_name))
            stream = BytesIO(registry.encode(message, version))
            decoded = getattr(module, name)[version].unpack(stream)
            assert b"" == stream.read()
            root = registry.spec(cls).root
            untagged = dataclasses.replace(root, fields=tuple(root.present(version)))
            assert leaves(plain(untagged, message, version)) == leaves(self.plain(decoded)), version
