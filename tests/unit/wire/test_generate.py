"""What is on disk is what the generator would write, and what it writes is worth having."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from odradek.wire import generate, registry
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.schema import SchemaError

PARTS = ("", "_reader", "_writer")


def test_modules_are_fresh() -> None:
    files = generate.generate()
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in generate.MESSAGES.glob("*.py")}
    stale = sorted(name for name in files.keys() | on_disk.keys() if files.get(name) != on_disk.get(name))
    assert not stale, "run python -m odradek.wire.generate"


def test_write_brings_a_folder_up_to_date(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    (schemas / "messages").mkdir(parents=True)
    for name in ("EndTxnRequest", "EndTxnResponse", "ResponseHeader"):
        shutil.copy(generate.SCHEMAS / "messages" / f"{name}.json", schemas / "messages")
    messages = tmp_path / "messages"
    end_txn = [f"end_txn_{message}{part}.py" for message in ("request", "response") for part in PARTS]
    written = ["__init__.py", "apis.py", "digest.py", *end_txn, "response_header.py"]
    assert written == generate.write(schemas, messages)
    assert [] == generate.write(schemas, messages)
    (messages / "response_header.py").write_text("edited")
    (messages / "gone.py").write_text("stale")
    assert ["gone.py", "response_header.py"] == generate.write(schemas, messages)
    assert not (messages / "gone.py").exists()
    assert "class ResponseHeader" in (messages / "response_header.py").read_text()


def test_file_is_named_after_its_message(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    shutil.copy(generate.SCHEMAS / "messages" / "EndTxnRequest.json", tmp_path / "messages" / "Other.json")
    with pytest.raises(SchemaError, match="holds EndTxnRequest"):
        generate.generate(tmp_path)


def test_api_key_belongs_to_one(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    for name in ("EndTxnRequest", "HeartbeatRequest"):
        text = (generate.SCHEMAS / "messages" / f"{name}.json").read_text()
        (tmp_path / "messages" / f"{name}.json").write_text(text.replace('"apiKey": 12', '"apiKey": 26'))
    with pytest.raises(SchemaError, match="HeartbeatRequest: its API key 26 is none of its own"):
        generate.generate(tmp_path)


def test_folder_without_schemas(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schemas there"):
        generate.generate(tmp_path)


def test_generator_needs_the_standard_library_only() -> None:
    """A build has nothing else: neither msgspec nor the package itself."""
    allowed = {*sys.stdlib_module_names, "odradek", "__future__"}
    for name in ("schema", "primitives", "emit", "emit_reader", "emit_writer", "generate"):
        lines = (generate.MESSAGES.parent / f"{name}.py").read_text().splitlines()
        imports = [line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))]
        assert set(imports) <= allowed, name


def test_build_hook_generates_without_importing_the_package(tmp_path: Path) -> None:
    from odradek.wire.build_hook import generate_messages

    package = tmp_path / "odradek"
    (package / "wire").mkdir(parents=True)
    for path in generate.MESSAGES.parent.glob("*.py"):
        shutil.copy(path, package / "wire")
    (package / "__init__.py").write_text("raise ImportError('the build must not run this')")
    (package / "wire" / "__init__.py").write_text("raise ImportError('the build must not run this')")
    before = sys.modules["odradek.wire.generate"]
    changed = generate_messages(package, generate.SCHEMAS)
    assert "produce_request.py" in changed
    assert (package / "wire" / "messages" / "produce_request.py").read_text() == (
        generate.MESSAGES / "produce_request.py"
    ).read_text()
    assert before is sys.modules["odradek.wire.generate"]


def test_defaults_are_the_schema_s() -> None:
    request = FetchRequest()
    assert request.cluster_id is None
    assert -1 == request.replica_id
    assert 0x7FFFFFFF == request.max_bytes
    assert -1 == request.replica_state.replica_id
    assert "" == request.rack_id
    assert [] == request.topics
    assert [] == request.unknown_tagged_fields
    assert ZERO_UUID == TopicProduceData().topic_id


def test_defaults_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(None)  # type: ignore[arg-type]
    first.replica_state.replica_id = 7
    assert [] == second.topics
    assert -1 == second.replica_state.replica_id


def test_equal_versions_share_their_code() -> None:
    assert registry.reader(ProduceRequest, 9) is registry.reader(ProduceRequest, 12)
    assert registry.reader(ProduceRequest, 9) is not registry.reader(ProduceRequest, 13)
    assert registry.writer(ProduceRequest, 3) is registry.writer(ProduceRequest, 8)


def test_records_are_views_of_the_frame() -> None:
    records = PartitionProduceData(0, b"r" * 5000)
    encoded = registry.encode(ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[records])]), 9)
    decoded = registry.decode(ProduceRequest, encoded, 9)
    view = decoded.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert encoded is view.obj
