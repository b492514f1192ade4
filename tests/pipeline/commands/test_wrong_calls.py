"""Wrong calls: one sentence and exit code 2, before anything is started; no audit is ok without having looked."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from odradek.cli.all_commands import commands_for
from odradek.cli.usage import UsageError
from odradek_pipeline.commands.preflight import sentence
from odradek_pipeline.commands.told import problem_lines
from odradek_pipeline.logs.layout import problem

Recorded = Callable[[str], Path]


def exit_code(*words: object) -> int:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        commands_for("audit").run([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def called(*words: object) -> str:
    """The sentence that the command ends with; it is all that a wrong call prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(UsageError) as wrong:
        commands_for("audit").run([str(word) for word in words])
    assert "" == printed.getvalue()
    text = str(wrong.value)
    assert 1 == len(text.splitlines())
    assert text.endswith(".")
    return text


READERS = [["scan"], ["audit", "logs", "--master", "none"], ["audit", "all", "--master", "none", "--logs"]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the folder `audit` if they are told no other."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", READERS)
def test_a_directory_without_partitions(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert "There is no partition in" in called(*command, tmp_path / "empty")
    (tmp_path / "empty" / "notes.txt").touch()
    assert "There is no partition in" in called(*command, tmp_path / "empty")
    assert "There is no" in called(*command, tmp_path / "absent")


@pytest.mark.parametrize("command", READERS)
def test_a_plain_file(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("x")
    assert "is no directory" in called(*command, tmp_path / "file")


def test_an_empty_disk_beside_a_full_one_is_no_mistake(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "meta.properties").touch()
    assert "There is no partition" in called("scan", tmp_path / "disk")
    assert 0 == exit_code("scan", tmp_path / "disk", recorded("idle"))


def test_a_topic_that_is_not_there(recorded: Recorded) -> None:
    for command in (["scan"], ["audit", "logs", "--master", "none"]):
        assert "There is no topic nope" in called(*command, recorded("idle"), "--topic", "nope")


@pytest.mark.parametrize("kind", ["history", "events"])
def test_files_without_anything_to_audit(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "noise").write_text("no JSON\n[1, 2]\n")
    for name in ("empty", "noise"):
        assert f"in {tmp_path / name}" in called("audit", kind, tmp_path / name)
        assert not (tmp_path / "audit" / "summary.json").exists()
    assert "is a directory" in called("audit", kind, tmp_path)
    assert "There is no" in called("audit", kind, tmp_path / "absent")


def test_a_place_for_tables_that_is_none(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "cannot be a folder" in called("audit", "logs", recorded("idle"), "--master", "none", "--out", out)


def test_a_report_of_nothing(tmp_path: Path) -> None:
    assert "There is no audit" in called("report", tmp_path)
    (tmp_path / "anomalies.parquet").write_bytes(b"no Parquet")
    (tmp_path / "summary.json").write_text("{}")
    assert "cannot be read" in called("report", tmp_path)


@pytest.mark.parametrize("master", ["nope", "local[x]", "spark://", "http://spark:1"])
def test_a_master_that_is_none(recorded: Recorded, master: str) -> None:
    assert f"There is no master {master}" in called("audit", "logs", recorded("idle"), "--master", master)
    words = ["--bootstrap", "localhost:1", "--source", "a", "--target", "b", "--checkpoint", "c", "--master", master]
    if not os.environ.get("ODRADEK_PIPELINE_JARS"):
        return
    assert f"There is no master {master}" in called("copy", *words)


def test_a_master_that_does_not_answer(recorded: Recorded) -> None:
    assert "Nobody answers at spark://127.0.0.1:1" in called(
        "audit", "logs", recorded("idle"), "--master", "spark://127.0.0.1:1"
    )


def test_no_java_and_an_old_one(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Spark needs Java 17 or newer: there is none" in called("audit", "logs", recorded("idle"))
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    assert "1.8.0" in called("audit", "logs", recorded("idle"))


def test_a_broker_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek_pipeline.jobs.copy_exactly_once.ANSWER_S", 1)
    monkeypatch.setattr("odradek_pipeline.spark.session.connector_jars", lambda: ["some.jar"])
    words = ["--bootstrap", "127.0.0.1:1", "--source", "a", "--target", "b", "--checkpoint", tmp_path]
    assert "No broker answers at 127.0.0.1:1" in called("copy", *words)


@pytest.mark.parametrize("what", ["directory", "partition", "segment", "out"])
def test_without_permission(recorded: Recorded, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nobody, who may do nothing; root may do all, so the answers are put into its mouth."""
    directory = recorded("idle")
    forbidden = {
        "directory": directory,
        "partition": directory / "orders-0",
        "segment": directory / "orders-0" / f"{0:020}.log",
        "out": tmp_path / "out",
    }[what]
    access, listed = os.access, os.listdir

    def denied(path: str | Path, mode: int) -> bool:
        return str(path) != str(forbidden) and access(path, mode)

    def hidden(path: str | Path) -> list[str]:
        if str(path) == str(forbidden):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr("os.access", denied)
    monkeypatch.setattr("os.listdir", hidden)
    said = called("audit", "logs", directory, "--master", "none", "--out", tmp_path / "out")
    assert f"{forbidden} cannot be" in said
    assert "Permission denied" in said


def test_the_codes_of_what_is_healthy_and_of_what_is_bad(recorded: Recorded) -> None:
    codes = [exit_code("audit", "logs", recorded(name), "--master", "none") for name in ("idle", "hang")]
    assert [0, 1] == codes


def test_what_is_bad_is_printed_first_and_little_of_what_is_not() -> None:
    problems = [problem(f"/b/t-{at}", -1, "other-replica", "compared", severity="info") for at in range(1200)]
    problems += [problem("/b/t-0/0.log", at, "broken", "no batch") for at in range(22)]
    lines = list(problem_lines(problems))
    assert "bad problem broken /b/t-0/0.log at 0: no batch" == lines[0]
    assert ["and 2 more that are bad", "info problem other-replica /b/t-0: compared"] == lines[20:22]
    assert "info problem other-replica: 1,197 more" == lines[-1]
    assert 25 == len(lines)


def test_the_process_ends_with_2_and_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "scan", str(tmp_path / "absent")], capture_output=True, text=True, check=False
    )
    assert (2, "", f"odradek: There is no {tmp_path / 'absent'}.\n") == (done.returncode, done.stdout, done.stderr)


def test_a_trace_of_the_jvm_is_one_sentence() -> None:
    trace = (
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted.\n\tat a.B(C)\n"
        "Caused by: java.io.IOException: No space left on device\n\tat java.base/d.E\n"
    )
    assert "IOException: No space left on device." == sentence(RuntimeError(trace))
    assert "plain words." == sentence(RuntimeError("plain words.\nmore"))


NO_SPARK = "There is no Spark here (the extra pipeline): this process reads the logs, as with --master none.\n"
WITHOUT_SPARK = """
import json, sys
class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "confluent_kafka"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoSpark())
from odradek.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        codes.append(ended.code)
print(codes)
"""


def test_audits_that_need_no_spark_work_without_it(recorded: Recorded, tmp_path: Path) -> None:
    """The extra `audit` brings no Spark, and these no JVM: one process that finds no Spark plays all."""
    directory = recorded("idle")
    events = tmp_path / "events.jsonl"
    events.write_text('{"ts_ns": 1, "seq": 1, "node": 1, "kind": "feature_changed"}\n')
    history = tmp_path / "history.jsonl"
    history.write_text(
        '{"time": 1, "process": 0, "type": "ok", "f": "send", "value": [["send", "t-0", [0, 1]]]}\n'
        '{"time": 2, "process": 1, "type": "ok", "f": "poll", "value": [["poll", {"t-0": [[0, 1]]}]]}\n'
    )
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    calls: list[list[object]] = [
        ["audit", "events", events],
        ["audit", "history", history],
        ["audit", "logs", directory],
        ["audit", "all", "--events", events, "--logs", directory],
        ["scan", directory],
        ["report"],
    ]
    command = [sys.executable, "-c", WITHOUT_SPARK, json.dumps([[str(word) for word in words] for words in calls])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (0, NO_SPARK * 2) == (done.returncode, done.stderr)
    assert str([0] * len(calls)) == done.stdout.splitlines()[-1]
    assert (tmp_path / "audit" / "report.html").exists()


@pytest.mark.parametrize("address", ["kafka:abc", ":9092", "kafka:0", "kafka:9092,", "kafka:70000"])
def test_a_watch_of_no_address(address: str) -> None:
    assert " is no address: it is HOST:PORT." in called("watch", "--bootstrap", address)


def test_a_watch_that_nobody_answers_and_an_audit_since_no_time(recorded: Recorded, tmp_path: Path) -> None:
    assert "Nobody answers at 127.0.0.1:1: " in called("watch", "--bootstrap", "127.0.0.1:1", "--once")
    (tmp_path / "file").touch()
    assert "cannot be a folder" in called("watch", "--bootstrap", "127.0.0.1:1", "--out", tmp_path / "file")
    assert "is no time" in called("audit", "logs", recorded("idle"), "--master", "none", "--since", "yesterday")
    assert 0 == exit_code("audit", "logs", recorded("idle"), "--master", "none", "--since", "7d", "--state", "memory")


FIRST = f"{0:020}"


def a_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("command", READERS[:2])
@pytest.mark.parametrize(
    ("make", "name", "sentence"),
    [
        (a_pipe, f"orders-0/{FIRST}.log", "is neither a file nor a directory."),
        (a_pipe, f"orders-0/{FIRST}.index", "is neither a file nor a directory."),
        (a_pipe, "meta.properties", "is neither a file nor a directory."),
    ],
)
def test_what_can_not_be_read_at_all(
    recorded: Recorded, command: list[str], make: Callable[[Path], None], name: str, sentence: str
) -> None:
    """A pipe without a writer would be waited for."""
    directory = recorded("idle")
    make(directory / name)
    assert f"{directory / name} {sentence}" == called(*command, directory)


@pytest.mark.parametrize("command", READERS[:2])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("meta.properties", "node.id=abc\ncluster.id=x\n"),
        ("meta.properties", f"node.id={1 << 80}\n"),
        ("replication-offset-checkpoint", f"0\n1\norders 0 {1 << 80}\n"),
        ("orders-0/leader-epoch-checkpoint", f"0\n1\n{1 << 70} 0\n"),
        (f"orders-{'9' * 20}/{FIRST}.log", ""),
    ],
)
def test_numbers_that_are_none(recorded: Recorded, command: list[str], name: str, content: str) -> None:
    """The audit tells them as a problem, a scan has no use for them; neither ends with a trace."""
    directory = recorded("idle")
    (directory / name).parent.mkdir(exist_ok=True)
    (directory / name).write_text(content)
    is_seen = command[0] == "audit" and not name.startswith("orders-9")
    assert int(is_seen) == exit_code(*command, directory)


def test_a_segment_named_after_no_offset(recorded: Recorded) -> None:
    directory = recorded("idle")
    (directory / "orders-0" / f"{'9' * 20}.log").touch()
    assert "no offset is as large as its name." in called("scan", directory)


def test_a_metadata_log_of_noise(tmp_path: Path) -> None:
    from tests.pipeline.corpus.__main__ import audited, unpack

    for name in (f"{FIRST}.log", f"{FIRST}-{0:010}.checkpoint"):
        root = unpack("java_level_2_clean_stop", tmp_path / name)
        path = root / "broker-1" / "__cluster_metadata-0" / name
        content = bytearray(path.read_bytes())
        content[61:] = b"\xfe" * (len(content) - 61)
        path.write_bytes(content)
        result = audited(root)
        assert result.is_bad, name


def test_a_name_that_is_no_path() -> None:
    assert "is no path." in called("scan", "a\0b")
