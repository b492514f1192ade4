"""Recordings: every answer again, byte for byte, after whatever was done to the brokers."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.hub.helpers import Till
from tests.net.test_serve import serving

from odradek import __version__
from odradek.cli.logs import make_logger
from odradek.cli.usage import UsageError
from odradek.control.client import HubClient
from odradek.net import recording_file
from odradek.net.client import BlockingClient
from odradek.net.masks import InParts, Mask
from odradek.net.recording import LARGE_BYTES, Record, Tape
from odradek.net.recording_file import Acted, Closed, Entry, Outcome, Ran, Reader, Received, frame
from odradek.replay.listing import lines_of
from odradek.replay.replay import Played, Replay
from odradek.testing import Cluster, rule
from odradek.wire import registry
from odradek.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.registry import ApiKey

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
QUIET = make_logger(level="error")


def played(path: Path) -> Played:
    """A whole recording, played."""
    return asyncio.run(Replay(path).play(QUIET))


def check(path: Path, *, answers: int) -> Played:
    """A recording with at least so many answers is the same again, and ends with its cluster."""
    done = played(path)
    assert done.difference is None, done.text
    assert done.why is None
    assert done.player.answers >= answers
    return done


def fetch(client: BlockingClient, offset: int, *, wait_ms: int, least: int = 1) -> Any:
    """The records of partition 0 of `t` from this offset on."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=least, max_bytes=1 << 20, topics=topics, replica_id=-1)
    return client.ask(request, 12)


def entries_of(path: Path) -> list[Entry]:
    return list(Reader(path))


def rewritten(path: Path, change: Callable[[list[Entry]], None]) -> Path:
    """A copy of a recording with other entries."""
    reader = Reader(path)
    entries = list(reader)
    change(entries)
    out = bytearray(recording_file.head_lines(reader.head))
    for entry in entries:
        frame(entry, out)
    other = path.with_suffix(".other")
    other.write_bytes(out)
    return other


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    """A recording of two transactions and a long poll."""
    path = tmp_path / "simple.rec"
    with Cluster(topics=["t"], record=path) as cluster:
        till = Till(cluster.bootstrap)
        assert [till.add(), till.send(), till.end()] == [0, 0, 0]
        with BlockingClient(cluster.bootstrap, client_id="reader") as reader:
            fetch(reader, 0, wait_ms=0)
            fetch(reader, 2, wait_ms=30)
        assert [till.add(), till.send(), till.end(commit=False)] == [0, 0, 0]
        till.close()
    return path


# ---------------------------------------------------------------------- the same again


def test_a_recording_is_played_byte_for_byte(simple: Path) -> None:
    done = check(simple, answers=9)
    assert re.fullmatch(r"\d+ inputs: \d+ answers to 2 connections, the same byte for byte\.", done.text)


def test_several_brokers_and_what_is_done_to_them(tmp_path: Path) -> None:
    path = tmp_path / "deeds.rec"
    with Cluster(brokers=3, topics=["t:3"], record=path, seed=5) as cluster:
        address = cluster.bootstrap.split(",")[0]
        cluster.freeze()
        held = cluster.add_rule(rule("METADATA", name="late", hold=True, times=1))
        cluster.add_rule(rule("METADATA", probability=0.5, error="UNKNOWN_SERVER_ERROR", times="all"))
        asked = asyncio.run(_held(cluster, address, held))
        assert "t" in [topic.name for topic in asked.topics]
        with BlockingClient(address, client_id="a") as client:
            for _ in range(8):
                client.ask(MetadataRequest(topics=None), 12)
            client.ask(CreateTopicsRequest(topics=[CreatableTopic(name="made", num_partitions=4)], timeout_ms=0), 5)
            cluster.remove_rule(held)
            cluster.move_leader("t", 0)
            cluster.advance(timedelta(minutes=3))
            cluster.set_replica_lag(2, 50)
            cluster.pause_broker(2)
            cluster.advance(timedelta(seconds=20))
            cluster.resume_broker(2)
            cluster.resume()
            cluster.stop_broker(3)
            client.ask(MetadataRequest(topics=None), 12)
            cluster.start_broker(3)
            cluster.set_coordinator_load_ms(5)
            cluster.set_transaction_version(1)
            with pytest.raises(LookupError):
                cluster.move_leader("none", 0)
            client.ask(MetadataRequest(topics=None), 12)
    check(path, answers=12)
    deeds = [entry.deed for entry in entries_of(path) if isinstance(entry, Acted)]
    assert deeds[:4] == ["start", "RunningCluster.freeze", "add_rules", "add_rules"]
    assert deeds[-1] == "RunningCluster.halt_all"


async def _held(cluster: Cluster, address: str, held: Any) -> Any:
    """The answer to a request that a rule holds until it is released."""

    def ask() -> Any:
        with BlockingClient(address, client_id="held") as client:
            return client.ask(MetadataRequest(topics=None), 12)

    asked = asyncio.create_task(asyncio.to_thread(ask))
    await asyncio.to_thread(cluster.wait, rule={"name": "late", "held": 1})
    cluster.release(held)
    return await asked


def test_transactions_time_out_again_when_they_did(tmp_path: Path) -> None:
    path = tmp_path / "timers.rec"
    with Cluster(topics=["t"], record=path) as cluster:
        till = Till(cluster.bootstrap)
        assert [till.add(), till.send()] == [0, 0]
        cluster.advance(timedelta(minutes=5))
        assert till.end() != 0
        till.close()
    check(path, answers=4)


def test_tls_and_logins(tmp_path: Path) -> None:
    path = tmp_path / "secret.rec"
    with Cluster(security="sasl-ssl", users={"alice": "hers"}, topics=["t"], record=path, with_secrets=True) as cluster:
        from confluent_kafka import Producer

        producer = Producer({**cluster.access.librdkafka, "bootstrap.servers": cluster.bootstrap})
        producer.produce("t", b"value")
        assert not producer.flush(TIMEOUT_S)
    check(path, answers=4)


def test_quotas_read_the_same_times(tmp_path: Path) -> None:
    """The time of the thread decides how long a client is throttled."""
    path = tmp_path / "quotas.rec"
    config = {"max.connection.creation.rate": 1000}
    quota = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="a")],
        ops=[OpData(key="request_percentage", value=0.01)],
    )
    with Cluster(record=path, topics=["t:100"], config=config) as cluster:
        with BlockingClient(cluster.bootstrap, client_id="admin") as client:
            client.ask(AlterClientQuotasRequest(entries=[quota]), 1)
        for _ in range(5):
            with BlockingClient(cluster.bootstrap, client_id="a") as client:
                client.ask(MetadataRequest(topics=None), 12)
    assert any(each.worked for each in entries_of(path) if isinstance(each, Outcome))
    check(path, answers=6)


def test_turns_end_again_where_they_did(tmp_path: Path) -> None:
    """Two clients send more than a turn takes, so that the brokers take turns."""
    path = tmp_path / "turns.rec"
    with Cluster(record=path, topics=["t:1000"]) as cluster:
        host, port = cluster.bootstrap.split(":")
        with socket.create_connection((host, int(port))) as one, socket.create_connection((host, int(port))) as other:
            for connection in (one, other):
                connection.sendall(PLAIN * 20)
            for connection in (one, other):
                stream = connection.makefile("rb")
                for _ in range(20):
                    stream.read(int.from_bytes(stream.read(4), "big"))
                stream.close()
    assert sum(len(each.turns) for each in entries_of(path) if isinstance(each, Outcome)) > 2
    check(path, answers=40)


def test_large_requests_are_kept_as_they_came(tmp_path: Path) -> None:
    path, value = tmp_path / "large.rec", os.urandom(400_000)
    with Cluster(topics=["t"], record=path) as cluster:
        till = Till(cluster.bootstrap)
        assert [till.add(), till.send(value), till.end()] == [0, 0, 0]
        till.close()
    kept = b"".join(each.data for each in entries_of(path) if isinstance(each, Received))
    assert value in kept
    assert max(len(each.data) for each in entries_of(path) if isinstance(each, Received)) >= LARGE_BYTES
    assert path.stat().st_size < 1.1 * len(kept)
    check(path, answers=4)


def test_time_stands_still_while_brokers_have_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = count(1_000)
    monkeypatch.setattr("odradek.net.recording.machine_ms", lambda: next(times))
    tape = Tape(Record(path=tmp_path / "a.rec"), QUIET)
    assert tape.now() == tape.now(), "logs that are read before the start have the time of the head"
    tape.enter(Ran(0, 1))
    assert tape.now() == tape.now()
    tape.leave()
    assert tape.now() < tape.now()
    tape.close("")


def test_a_killed_process_leaves_all_but_the_last_answers(tmp_path: Path) -> None:
    play_a_killed_process(tmp_path / "killed.rec", "--topic", "t")


def play_a_killed_process(path: Path, *words: str) -> None:
    """Record a transaction of a process that is killed behind it, and play all but the last answers."""
    with serving("--record", str(path), *words) as (process, [address]):
        till = Till("{}:{}".format(*address))
        assert [till.add(), till.send(), till.end()] == [0, 0, 0]
        till.close()
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = played(path)
    assert done.difference is None
    assert done.player.answers >= 3
    assert done.why is not None
    assert "cut off without the end of its cluster" in done.why


# ---------------------------------------------------------------------- another answer


def test_the_first_answer_that_differs_is_shown_twice(simple: Path) -> None:
    where = _answer_of(simple, ApiKey.END_TXN)

    def other_error(entries: list[Entry]) -> None:
        outcome = entries[where]
        assert isinstance(outcome, Outcome)
        conn, data = outcome.said[0]
        assert isinstance(data, bytes)
        # EndTxn v3: the header ends with no tags; throttle time, then the error code.
        outcome.said[0] = conn, data[:13] + (51).to_bytes(2, "big") + data[15:]

    done = played(rewritten(simple, other_error))
    assert done.difference is not None
    assert 'recorded: END_TXN v3 {"throttleTimeMs":0,"errorCode":51}' in done.text
    assert 'played:   END_TXN v3 {"throttleTimeMs":0,"errorCode":0}' in done.text
    assert "0x33 was recorded, 0x00 was played" in done.text


def _answer_of(path: Path, api: ApiKey) -> int:
    """Where in the entries the answer to the first request of this API is."""
    entries = entries_of(path)
    for at, entry in enumerate(entries):
        if isinstance(entry, Received) and int.from_bytes(entry.data[4:6], "big") == api:
            assert isinstance(entries[at + 1], Outcome)
            return at + 1
    raise LookupError(api)


@pytest.mark.parametrize("missing", ["an answer", "an input", "a draw"])
def test_what_is_missing_is_noticed(simple: Path, missing: str) -> None:
    def take_out(entries: list[Entry]) -> None:
        if missing == "an input":
            # Without the first transaction the second one finds another offset.
            entries[:] = [e for at, e in enumerate(entries) if at not in (where - 1, where)]
        elif missing == "an answer":
            entries[where].said.clear()  # type: ignore[union-attr]
        else:
            entries.insert(where + 1, Outcome([(1, 1)], [], [], []))
            entries.insert(where + 1, Received(0, 1, b""))

    where = _answer_of(simple, ApiKey.PRODUCE)
    assert played(rewritten(simple, take_out)).difference is not None


# ---------------------------------------------------------------------- bad files


def test_a_recording_that_is_cut_is_played_as_far_as_it_goes(simple: Path) -> None:
    whole = simple.read_bytes()
    head = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for size in (len(whole) - 1, (len(whole) + head) // 2, head + 400):
        cut = simple.with_suffix(".cut")
        cut.write_bytes(whole[:size])
        done = played(cut)
        assert done.difference is None
        assert done.why is not None
        assert "cut off" in done.why
        assert list(lines_of(Reader(cut)))[-1] == done.why


def test_a_recording_that_is_damaged_says_where(simple: Path) -> None:
    whole = simple.read_bytes()
    half = entries_of(simple)[: len(entries_of(simple)) // 2]
    begins = bytearray()
    for entry in half:
        frame(entry, begins)
    head = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for damage in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\3abc"):
        bad = simple.with_suffix(".bad")
        bad.write_bytes(whole[:head] + begins + damage + whole[head + len(begins) + len(damage) :])
        with pytest.raises(UsageError, match=r"is damaged behind input \d+: what follows cannot be read\.$") as refused:
            played(bad)
        listed: list[str] = []
        with pytest.raises(UsageError) as in_list:
            listed.extend(lines_of(Reader(bad)))
        assert str(refused.value) == str(in_list.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a recording"),
        (b"no recording at all\n", "is not a recording"),
        (os.urandom(5000), "is not a recording"),
        (b"odradek recording 99\n{}\n", r"is a recording of format 99, and Odradek .* reads formats 1 and 2\."),
        (b"odradek recording 1\n{}\n", "whose head cannot be read"),
        (b"odradek recording 1\n", "whose head cannot be read"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        played(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Cannot read .*: No such file"):
        played(tmp_path / "none")


def test_another_odradek_says_so(simple: Path) -> None:
    head = simple.read_bytes().replace(f'"odradek":"{__version__}"'.encode(), b'"odradek":"0.0.1"')
    simple.write_bytes(head)
    assert Replay(simple).warnings == [
        f"It was recorded by another Odradek: Odradek was 0.0.1 there and is {__version__} here."
    ]
    check(simple, answers=9)


# ---------------------------------------------------------------------- to record


def test_a_file_that_exists_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"Cannot record to .*there: there is such a file already\."):
        Cluster(record=path).__enter__()
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match=r"Cannot record to .*: No such file or directory\."):
        Cluster(record=tmp_path / "no" / "folder").__enter__()


@pytest.mark.parametrize("security", ["ssl", "sasl-plaintext"])
def test_secrets_are_kept_only_where_that_was_said(tmp_path: Path, security: str) -> None:
    path = tmp_path / "secret.rec"
    with pytest.raises(UsageError, match=r"Listener .* speaks .*, so that the recording would hold secrets"):
        Cluster(security=security, record=path).__enter__()
    assert not path.exists()


def test_nobody_else_may_read_the_file(simple: Path) -> None:
    assert simple.stat().st_mode & 0o777 == 0o600


def test_a_recording_ends_before_it_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "short.rec"
    with serving("--record", str(path), "--record-max", "4000", "--topic", "t") as (process, [address]):
        with BlockingClient("{}:{}".format(*address), client_id="a") as client:
            for _ in range(50):
                client.ask(MetadataRequest(topics=None), 12)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert "recording_ended" in process.stderr.read()
    assert path.stat().st_size <= 4000 + 100
    done = played(path)
    assert done.difference is None
    assert done.why == (
        "The recording ends before its cluster did: It would be longer than 4,000 bytes, which was the most."
    )
    assert 0 < done.player.answers < 50


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "full.rec"
    with Cluster(record=path, topics=["t"]) as cluster, BlockingClient(cluster.bootstrap, client_id="a") as client:
        client.ask(MetadataRequest(topics=None), 12)
        client.ask(MetadataRequest(topics=None), 12)
        with monkeypatch.context() as patched:
            patched.setattr("odradek.net.recording.os.write", _full)
            assert client.ask(MetadataRequest(topics=None), 12).topics[0].name == "t"
        client.ask(MetadataRequest(topics=None), 12)
    done = played(path)
    assert done.difference is None
    assert done.player.answers == 1


def _full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_rule_with_a_function_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "function.rec"
    with Cluster(record=path, topics=["t"]) as cluster, BlockingClient(cluster.bootstrap, client_id="a") as client:
        client.ask(MetadataRequest(topics=None), 12)
        cluster.add_rule(rule("METADATA", reply=lambda _: None))
    done = played(path)
    assert done.player.answers == 1
    assert done.why is not None
    assert "add_rules is not recorded" in done.why


# ---------------------------------------------------------------------- credentials


def framed(request: Any, version: int) -> bytes:
    """A request as it is sent."""
    api_key = registry.api_of(type(request))
    header = RequestHeader(int(api_key), version, 7, "client")
    message = registry.encode(header, registry.request_header_version(api_key, version))
    message += registry.encode(request, version)
    return len(message).to_bytes(4, "big") + message


PLAIN = framed(MetadataRequest(topics=None), 12)
SCRAM = framed(
    AlterUserScramCredentialsRequest(
        deletions=[],
        upsertions=[
            ScramCredentialUpsertion(
                name="bob", mechanism=1, iterations=4096, salt=b"the salt of bob", salted_password=b"what bob says"
            )
        ],
    ),
    0,
)
CONFIGS = framed(
    IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name="1",
                configs=[
                    AlterableConfig(name="ssl.keystore.password", config_operation=0, value="open sesame"),
                    AlterableConfig(name="log.retention.ms", config_operation=0, value="70007"),
                ],
            )
        ]
    ),
    1,
)
LOGIN = framed(SaslAuthenticateRequest(auth_bytes=b"\0bob\0his password"), 2)


@pytest.mark.parametrize(
    ("request_", "secrets", "rest"),
    [
        (SCRAM, [b"the salt of bob", b"what bob says"], b"bob"),
        (CONFIGS, [b"open sesame"], b"70007"),
        (LOGIN, [b"his password"], b"client"),
    ],
)
def test_credentials_are_hidden_byte_for_byte(request_: bytes, secrets: list[bytes], rest: bytes) -> None:
    sent = PLAIN + request_ + PLAIN
    shown = Mask().hide(sent)
    assert len(shown) == len(sent)
    assert rest in shown
    for secret in secrets:
        assert secret in sent
        assert secret not in shown
    assert shown.startswith(PLAIN)
    assert shown.endswith(PLAIN)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 20])
def test_other_requests_may_come_in_parts(size: int) -> None:
    mask = Mask()
    assert b"".join(map(mask.hide, pieces(PLAIN * 3, size))) == PLAIN * 3


@pytest.mark.parametrize("size", [1, 5, 8, 30])
def test_credentials_in_parts_are_not_kept(size: int) -> None:
    mask, kept = Mask(), list[bytes]()
    with pytest.raises(InParts):
        kept.extend(map(mask.hide, pieces(PLAIN + SCRAM, size)))
    assert b"salt of" not in b"".join(kept)


def test_hidden_credentials_give_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "scram.rec"
    with Cluster(record=path) as cluster, BlockingClient(cluster.bootstrap, client_id="a") as client:
        upsertion = ScramCredentialUpsertion(
            name="bob", mechanism=1, iterations=4096, salt=b"the salt of bob", salted_password=b"what bob says"
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        assert client.ask(request, 0).results[0].error_code == 0
    assert b"salt of bob" not in path.read_bytes()
    check(path, answers=1)


# ---------------------------------------------------------------------- the command


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odradek", "replay", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S
    )


def test_the_command_says_how_many_answers_were_the_same(simple: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    done = replay(str(simple), "--events", str(events))
    assert (done.returncode, done.stderr) == (0, "")
    assert "the same byte for byte." in done.stdout
    assert events.read_bytes().count(b'"kind":"lso_moved"') > 1


def test_the_command_fails_where_an_answer_differs(simple: Path) -> None:
    where = _answer_of(simple, ApiKey.PRODUCE)

    def nothing(entries: list[Entry]) -> None:
        entries[where].said.clear()  # type: ignore[union-attr]

    done = replay(str(rewritten(simple, nothing)))
    assert done.returncode == 1
    assert "recorded: nothing" in done.stdout


def test_bad_input_of_the_command_is_one_sentence(tmp_path: Path, simple: Path) -> None:
    for words in (
        [str(tmp_path / "none")],
        [str(simple), "--until", "soon"],
        [str(simple), "--until", "99999"],
        [str(simple), "--until", "end"],  # its cluster has ended there
        [str(simple), "--port", "0"],
        [str(simple), "--event-bodies"],
    ):
        done = replay(*words)
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1, done.stderr
        assert "Traceback" not in done.stderr


def test_the_list_has_every_input(simple: Path) -> None:
    lines = list(lines_of(Reader(simple)))
    inputs = [each for each in entries_of(simple) if not isinstance(each, Outcome | Closed)]
    assert len(lines) == len(inputs)
    assert re.fullmatch(r" +1 +\d+ ms  start\(\)", lines[0])
    assert any("END_TXN v3" in line for line in lines)


def test_clients_go_on_from_an_input(simple: Path) -> None:
    """Between the transactions the second one is not there, and the first one is."""
    ends = [at for at, line in enumerate(lines_of(Reader(simple)), 1) if "END_TXN" in line]
    command = [sys.executable, "-m", "odradek", "replay", str(simple), "--until", str(ends[0] + 1), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "the same byte for byte." in process.stdout.readline()
            address = process.stdout.readline().strip().removeprefix("odradek ready bootstrap=")
            with BlockingClient(address, client_id="now") as client:
                assert client.ask(MetadataRequest(topics=None), 12).brokers[0].port == int(address.split(":")[1])
                [[read]] = [topic.partitions for topic in fetch(client, 0, wait_ms=0).responses]
                assert (read.high_watermark, read.last_stable_offset) == (2, 2)
            till = Till(address)
            assert [till.add(), till.send(), till.end()] == [0, 0, 0]
            till.close()
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0


# ---------------------------------------------------------------------- tests, and a hub


TESTS = """
import pytest
from odradek.net.client import BlockingClient
from odradek.testing import Cluster
from odradek.wire.messages.metadata_request import MetadataRequest

def ask(cluster):
    with BlockingClient(cluster.bootstrap, client_id="t") as client:
        client.ask(MetadataRequest(topics=None), 12)

def test_passes(kafka_cluster):
    ask(kafka_cluster)

def test_fails(kafka_cluster):
    ask(kafka_cluster)
    assert False

def test_fails_behind_its_cluster():
    with Cluster() as cluster:
        ask(cluster)
    assert False

def test_fails_with_security():
    with Cluster(security="ssl"):
        assert False

def test_fails_with_a_directory(tmp_path):
    with Cluster(data_dir=tmp_path / "data"):
        assert False
"""


def test_a_failing_test_names_its_recording(tmp_path: Path) -> None:
    test, recordings, junit = tmp_path / "test_it.py", tmp_path / "recordings", tmp_path / "junit.xml"
    test.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "odradek.testing.pytest_plugin", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), f"--junitxml={junit}", str(test)]
    done = subprocess.run(
        [*command, "--odradek-record", str(recordings)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "4 failed, 1 passed" in done.stdout, done.stdout
    kept = sorted(recordings.iterdir())
    assert [path.name for path in kept] == [
        "test_it.py_test_fails-1.rec",
        "test_it.py_test_fails_behind_its_cluster-1.rec",
        "test_it.py_test_fails_with_a_directory-1.rec",
    ]
    for path in kept:
        check(path, answers=0 if "directory" in path.name else 1)
        for report in (done.stdout, junit.read_text()):
            assert f"Again, answer for answer: odradek replay {path}" in report
    assert "Not recorded, because the recording would hold secrets: Listener SSL speaks SSL." in done.stdout


def test_a_hub_records_its_clusters(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "hub", "--listen", "0", "--record", str(tmp_path / "recordings")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            hub = HubClient(process.stdout.readline().strip().removeprefix("odradek hub ready url="))
            made = hub.post("clusters", body={"id": "kitchen", "topics": ["t"]})
            for again in (False, True):
                if again:
                    hub.post("clusters", "kitchen", "reset")
                till = Till(made["bootstrap"])
                assert [till.add(), till.send(), till.end()] == [0, 0, 0]
                till.close()
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    for number in (1, 2):
        check(tmp_path / "recordings" / f"kitchen-{number}.rec", answers=4)


def test_a_controlled_cluster_is_recorded_again_when_it_is_reset(tmp_path: Path) -> None:
    with serving("--control", "0", "--record", str(tmp_path / "run.rec")) as (process, _):
        assert process.stdout is not None
        hub = HubClient(process.stdout.readline().strip().removeprefix("odradek hub ready url="))
        hub.post("clusters", "default", "time", body={"advance_ms": 60_000})
        hub.post("clusters", "default", "reset")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    check(tmp_path / "run.rec", answers=0)
    check(tmp_path / "run-2.rec", answers=0)
