"""`odradek codec-check` finds what is wrong and says so in a sentence."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.tools.codec_check import main

DATA = Path(__file__).parent / "data"


def first(file_name: str, /, **wanted: Any) -> dict[str, Any]:
    """The first vector of a file that has these values."""
    with gzip.open(DATA / file_name) as file:
        for line in file:
            vector: dict[str, Any] = json.loads(line)
            if wanted.items() <= vector.items():
                return vector
    raise AssertionError(f"no vector has {wanted}")


@pytest.fixture
def end_txn() -> dict[str, Any]:
    return first("vectors-dev.jsonl.gz", name="EndTxnRequest", version=3, shape="max")


@pytest.fixture
def batch() -> dict[str, Any]:
    return first("batches-dev.jsonl.gz", case="v2-idempotent")


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Check these lines; give the exit code and what was printed."""

    def run(*lines: Any) -> tuple[int, list[str]]:
        path = tmp_path / "vectors.jsonl"
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        code = main([str(path)])
        return code, [line.removeprefix(f"{path}") for line in capsys.readouterr().out.splitlines()]

    return run


def test_good_vectors(check: Any, end_txn: dict[str, Any], batch: dict[str, Any]) -> None:
    assert (0, ["2 passed, 0 failed"]) == check(end_txn, "\n", batch)


def flipped(text: str, position: int) -> str:
    data = bytearray.fromhex(text)
    data[position] ^= 1
    return data.hex()


def test_other_field(check: Any, end_txn: dict[str, Any]) -> None:
    end_txn["json"]["producerEpoch"] -= 1
    code, (failure, total) = check(end_txn)
    assert 1 == code
    assert ":1: EndTxnRequest 3 max: decoded, producerEpoch is 32767, not 32766" == failure
    assert "0 passed, 1 failed" == total


def test_missing_field(check: Any, end_txn: dict[str, Any]) -> None:
    del end_txn["json"]["committed"]
    assert ":1: EndTxnRequest 3 max: decoded, committed is too much" == check(end_txn)[1][0]


def test_other_bytes(check: Any, end_txn: dict[str, Any]) -> None:
    end_txn["hex"] = flipped(end_txn["hex"], -2)  # a bool, so 1 becomes 0
    assert ":1: EndTxnRequest 3 max: decoded, committed is False, not True" == check(end_txn)[1][0]


def test_uncanonical_bytes(check: Any, end_txn: dict[str, Any]) -> None:
    """Decoded they are the same: a bool of 2 is true as well."""
    data = bytearray.fromhex(end_txn["hex"])
    data[-2] = 2
    end_txn["hex"] = data.hex()
    size = len(data)
    expected = f":1: EndTxnRequest 3 max: encoded again, it differs from byte {size - 2} on ({size} bytes, not {size})"
    assert expected == check(end_txn)[1][0]


def test_broken_bytes(check: Any, end_txn: dict[str, Any]) -> None:
    end_txn["hex"] = end_txn["hex"][:-4]
    assert "DecodeError: EndTxnRequest: committed at byte" in check(end_txn)[1][0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "EndTheWorldRequest"}, "there is no message of this name"),
        ({"version": 99}, "there is no such version, but 0 to 5"),
        ({"version": "3"}, "there is no such version, but 0 to 5"),
        ({"apiKey": 27}, "apiKey is 26 here, 27 in the vector"),
        ({"flexible": False}, "flexible is True here, False in the vector"),
        ({"hex": "xyz"}, "not a vector: its 'hex' is not hexadecimal"),
        ({"unknownTaggedFields": [{"tag": 7, "hex": "00"}]}, "its unknown tagged fields are [], not"),
    ],
)
def test_wrong_head(check: Any, end_txn: dict[str, Any], change: dict[str, Any], complaint: str) -> None:
    assert complaint in check(end_txn | change)[1][0]


def test_framed(check: Any) -> None:
    vector = first("vectors-dev.jsonl.gz", name="TopicRecord", shape="random")
    vector["framedHex"] = flipped(vector["framedHex"], 1)
    assert "framed, it differs from byte 1 on" in check(vector)[1][0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello\n", "not a vector: the line is not JSON"),
        ("[1]\n", "not a vector: the line is not a JSON object"),
        ("{}\n", "not a vector: it has no 'name'"),
        ('{"type": "records"}\n', "not a vector: it has no 'valid'"),
        ("[" * 100_000 + "\n", "not a vector: the line is not JSON"),
    ],
)
def test_no_vector(check: Any, line: str, complaint: str) -> None:
    code, (failure, total) = check(line)
    assert 1 == code
    assert f":1: {complaint}" == failure
    assert "0 passed, 1 failed" == total


def test_other_batch_field(check: Any, batch: dict[str, Any]) -> None:
    batch["json"]["batches"][0]["producerId"] += 1
    assert "batches[0].producerId is" in check(batch)[1][0]


def test_batch_that_should_be_refused(check: Any, batch: dict[str, Any]) -> None:
    assert "accepted, but Kafka refuses it: because" in check(batch | {"valid": False, "error": "because"})[1][0]


def test_damaged_batch_that_should_be_valid(check: Any, batch: dict[str, Any]) -> None:
    batch["hex"] = flipped(batch["hex"], -1)
    assert "refused behind 0 batches: CORRUPT_MESSAGE" in check(batch)[1][0]


def test_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.jsonl"
    assert 1 == main([str(path)])
    assert f"{path} cannot be read: No such file or directory\n0 passed, 1 failed\n" == capsys.readouterr().out


def test_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert 1 == main([str(path)])
    assert f"{path} is empty\n0 passed, 1 failed\n" == capsys.readouterr().out


def test_truncated_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str], end_txn: dict[str, Any]) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(end_txn).encode())[:-20])
    assert 1 == main([str(path)])
    assert f"{path} cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(
    pack: Any, end_txn: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.dumps(end_txn).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pack(data))))
    assert 0 == main(["-"])
    assert "1 passed, 0 failed\n" == capsys.readouterr().out


def test_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], end_txn: dict[str, Any]) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(end_txn))
    assert 1 == main([str(path), str(tmp_path / "none"), str(path)])
    assert capsys.readouterr().out.endswith("2 passed, 1 failed\n")
