"""What a failing test says: a section with what its clusters knew, a traceback that ends with its own line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from odradek.cli.all_commands import commands_for
from odradek.testing import Cluster, witness

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Other plugins take long to import."""
ROOT = Path(__file__).parent.parent.parent
HEAD = """
import socket, threading, unittest
import pytest
from odradek.net.client import BlockingClient
from odradek.testing import Cluster, rule
from odradek.wire.messages.metadata_request import MetadataRequest
from tests.hub.helpers import Till

@pytest.fixture
def kafka_cluster_options():
    return {"topics": ["t"]}

def forgets_to_release(cluster, name="commit"):
    '''A client whose commit times out, because a rule that holds it was forgotten.'''
    cluster.add_rule(rule("END_TXN", name=name, hold=True))
    till = Till(cluster.bootstrap)
    till.add(), till.send(b"the value of a record")
    till.connection._connection.settimeout(0.05)
    till.end()
"""
FORGOTTEN = "Rule commit holds END_TXN v3 of till at broker 1 transactional_id=till-1 producer_id=0 for "
SECTION = re.compile(r"^-+ odradek -+$", re.MULTILINE)


class Played:
    """A run of pytest."""

    def __init__(self, done: subprocess.CompletedProcess[str], events: Path) -> None:
        self.text = done.stdout + done.stderr
        self.code = done.returncode
        self.events = events

    @property
    def sections(self) -> list[list[str]]:
        """The lines of each section, without what follows it."""
        found = []
        for part in SECTION.split(self.text)[1:]:
            lines = part.strip("\n").split("\n")
            ends = next((at for at, line in enumerate(lines) if re.match(r"[-=_]{3,} ?|.*=====", line)), len(lines))
            found.append(lines[:ends])
        return found

    def test(self, name: str) -> str:
        """What is told of a test that has failed."""
        begins = self.text.index(f"_ {name} _")
        ends = re.compile(r"^(_{3,} .* _{3,}|={3,} .* ={3,})$", re.MULTILINE).search(self.text, begins + 5 + len(name))
        assert ends is not None
        return self.text[begins : ends.start()]


def play(folder: Path, tests: str, *options: str, env: dict[str, str] | None = None, files: bool = True) -> Played:
    """Have pytest play tests in a process of its own."""
    (folder / "test_it.py").write_text(HEAD + tests)
    events = folder / "events"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "odradek.testing.pytest_plugin", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", str(folder)]
    command += ["--odradek-events", str(events)] if files else []
    path = os.pathsep.join([str(ROOT / "broker"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **ALONE, **(env or {})}
    done = subprocess.run(
        [*command, *options, str(folder / "test_it.py")],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env=environment,
        check=False,
    )
    return Played(done, events)


UNNAMED = """
def test_it(kafka_cluster):
    forgets_to_release(kafka_cluster, name=None)
"""


def test_a_rule_without_a_name_is_told_by_its_line(tmp_path: Path) -> None:
    played = play(tmp_path, UNNAMED)
    line = (tmp_path / "test_it.py").read_text().split("add_rule")[0].count("\n") + 1
    assert played.sections[0][0].startswith(f"Rule rule-1 (test_it.py:{line}) holds END_TXN v3 of till at broker 1")


# ---------------------------------------------------------------------- the section

FAILING = """
def test_times_out(kafka_cluster):
    forgets_to_release(kafka_cluster)

def test_passes(kafka_cluster):
    with pytest.raises(OSError):
        forgets_to_release(kafka_cluster)

@pytest.mark.xfail
def test_is_expected_to_fail(kafka_cluster):
    forgets_to_release(kafka_cluster)

def test_is_skipped(kafka_cluster):
    pytest.skip("today")

def test_without_a_cluster():
    assert False

def test_whose_cluster_has_ended():
    with pytest.raises(OSError), Cluster(topics=["t"]) as cluster:
        forgets_to_release(cluster)
    assert False

def test_of_two_clusters(kafka_cluster):
    with Cluster(topics=["t"]) as other:
        forgets_to_release(other)

@pytest.fixture
def closing(kafka_cluster):
    yield
    forgets_to_release(kafka_cluster)

def test_whose_teardown_fails(closing):
    pass

@pytest.fixture
def opening(kafka_cluster):
    forgets_to_release(kafka_cluster)

def test_whose_setup_fails(opening):
    pass

async def test_in_its_own_loop():
    async with Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule("END_TXN", name="unused", hold=True))
        assert False

class TestOfUnittest(unittest.TestCase):
    def test_of_unittest(self):
        with Cluster(topics=["t"]) as cluster:
            forgets_to_release(cluster)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("failing"), FAILING, "-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto")


def test_a_forgotten_hold_is_named_in_the_first_line(failing: Played) -> None:
    text = failing.test("test_times_out")
    [first, *others] = SECTION.split(text)[1].strip().split("\n")
    assert first.startswith(FORGOTTEN), text
    assert any(line.startswith("Consumers (read_committed) of t-0 stop at offset 0 of 1: till-1 ") for line in others)
    assert any(line.startswith("Transaction till-1 is Ongoing for ") for line in others)
    newest = [line for line in others if line.startswith("  ")]
    assert 0 < len(newest) <= 20
    assert newest[-1].endswith("broker 1 request END_TXN v3 of till")


def test_the_file_has_all_events(failing: Played) -> None:
    found = re.search(r"^All (\d+) events: (.*)$", failing.test("test_times_out"), re.MULTILINE)
    assert found is not None
    path = Path(found[2])
    assert failing.events == path.parent
    *events, why = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert list(range(1, int(found[1]) + 1)) == [event["seq"] for event in events]
    assert {"ts_ns", "wall_ns", "seq", "node", "kind"} <= events[0].keys()
    assert sorted(event["ts_ns"] for event in events) == [event["ts_ns"] for event in events]
    assert ("request", "END_TXN") == (events[-1]["kind"], events[-1]["api"])
    assert ("why", len(events) + 1, -1) == (why["kind"], why["seq"], why["node"])
    assert why["why"]["sentences"][0].startswith(FORGOTTEN)


def test_the_file_is_shown_and_checked(failing: Played, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(
        r"^In a browser, with what is stuck: odradek (show (.*)) --open$", failing.test("test_times_out"), re.M
    )
    assert found is not None
    commands_for("show").run([*shlex.split(found[1]), "-o", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert FORGOTTEN in page[page.index('"why":{') :]
    with pytest.raises(SystemExit) as ended:
        commands_for("sim").run(["sim", "check", found[2]])
    assert ended.value.code == 0
    assert "every promise" in capsys.readouterr().out


def test_only_tests_that_fail_have_one(failing: Played) -> None:
    assert "6 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors" in failing.text, failing.text
    for name in ("test_passes", "test_is_expected_to_fail", "test_is_skipped"):
        assert name not in " ".join(path.name for path in failing.events.iterdir())
    assert not SECTION.search(failing.test("test_without_a_cluster"))
    assert 7 == len(failing.sections)


@pytest.mark.parametrize(
    "name",
    ["test_whose_cluster_has_ended", "TestOfUnittest.test_of_unittest", "ERROR at setup of test_whose_setup_fails"],
)
def test_whenever_it_fails(failing: Played, name: str) -> None:
    assert SECTION.split(failing.test(name))[1].strip().startswith(FORGOTTEN)


def test_a_teardown_that_fails_before_the_cluster_ends(failing: Played) -> None:
    text = failing.test("ERROR at teardown of test_whose_teardown_fails")
    assert SECTION.split(text)[1].strip().startswith(FORGOTTEN)


def test_of_several_clusters_the_one_that_explains_most_comes_first(failing: Played) -> None:
    clusters = SECTION.split(failing.test("test_of_two_clusters"))[1].strip().split("\n\n")
    assert 2 == len(clusters)
    assert re.match(r"Cluster 127\.0\.0\.1:\d+: " + FORGOTTEN, clusters[0])
    assert re.match(r"Cluster 127\.0\.0\.1:\d+: Nothing is stuck", clusters[1])
    assert 2 == len(set(re.findall(r"^All \d+ events: (.*)$", "\n".join(clusters), re.MULTILINE)))


def test_in_an_event_loop_that_has_ended(failing: Played) -> None:
    section = SECTION.split(failing.test("test_in_its_own_loop"))[1].strip()
    assert section.startswith("Rule unused has hit no request: none matched.\nNothing is stuck")


@pytest.mark.client
def test_no_secret_and_no_record_is_in_it(tmp_path: Path) -> None:
    secrets = ["pass-of-alice", "value-of-a-record", "key-of-a-record"]
    (tmp_path / "secrets").write_text(" ".join(secrets))  # a traceback shows the lines of the test
    played = play(
        tmp_path,
        """
with open("secrets") as file:
    SECRET = file.read().split()

@pytest.fixture
def kafka_cluster_options():
    return {"topics": ["t"], "security": "sasl-plaintext", "users": {"alice": SECRET[0]}}

def test_a_login(kafka_cluster):
    from confluent_kafka import Producer
    kafka_cluster.add_rule(rule("END_TXN", name="commit", hold=True))
    producer = Producer({**kafka_cluster.access.librdkafka, "transactional.id": "till-1"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("t", SECRET[1].encode(), key=SECRET[2].encode())
    producer.flush(10)
    producer.commit_transaction(0.2)
""",
    )
    [path] = played.events.iterdir()
    [[first, *_]] = played.sections
    assert first.startswith("Rule commit holds END_TXN")
    assert "PRODUCE" in path.read_text()
    for secret in secrets:
        assert secret not in path.read_text() + played.text


def test_session_clusters_and_several_processes(tmp_path: Path) -> None:
    played = play(
        tmp_path,
        """
@pytest.fixture(scope="session")
def shared():
    with Cluster(topics=["t"]) as cluster:
        yield cluster

@pytest.mark.parametrize("number", range(4))
def test_shared(shared, number):
    armed = shared.add_rule(rule("METADATA", name=f"rule-of-{number}", hold=True))
    with BlockingClient(shared.bootstrap, client_id="t", timeout_s=0.05) as client:
        try:
            client.ask(MetadataRequest(topics=[]), 12)
        finally:
            shared._running.rules.clear() if number == 3 else None
""",
        "-n",
        "2",
        "-p",
        "xdist",
    )
    assert 1 == played.code, played.text
    firsts = [lines[0] for lines in played.sections]
    assert 4 == len(firsts), played.text
    assert any("Rule rule-of-0 holds METADATA v12 of t at broker 1" in line for line in firsts)
    assert 4 == len(list(played.events.iterdir()))


def test_without_an_option_files_go_where_pytest_keeps_such(tmp_path: Path) -> None:
    tests = "def test_fails(kafka_cluster):\n    assert False\n"
    played = play(tmp_path, tests, "--basetemp", str(tmp_path / "base"), files=False)
    path = tmp_path / "base" / "odradek-events" / "test_it.py_test_fails-1.jsonl"
    assert f"events: {path}" in played.text, played.text
    assert path.exists()


def test_a_test_without_a_cluster_has_no_section_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(witness.FOLDER, raising=False)
    monkeypatch.setattr(witness, "_temporary", lambda: pytest.fail("no folder is needed"))
    assert "" == witness.section(None, "test")


def test_where_files_go_and_that_none_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = "tests/test_it.py::test_of[é/..]"
    monkeypatch.setenv(witness.FOLDER, str(tmp_path / "named"))
    with Cluster():
        texts = [witness.section(folder, test) for folder in (None, None, tmp_path / "given")]
        blocked = tmp_path / "file"
        blocked.write_text("")
        assert witness.section(blocked, test).endswith(f"events: they cannot be written to {blocked}: File exists.")
    stem = "tests_test_it.py_test_of_.."
    files = [tmp_path / "named" / f"{stem}-1.jsonl", tmp_path / "named" / f"{stem}-2.jsonl"]
    for text, file in zip(texts, [*files, tmp_path / "given" / f"{stem}-1.jsonl"], strict=True):
        assert text.endswith(f" events: {file}{witness.SHOWN.format(path=file)}")
        assert file.exists()


def test_a_cluster_that_does_not_answer_hides_nothing(tmp_path: Path) -> None:
    played = play(
        tmp_path,
        """
def test_busy(kafka_cluster):
    from odradek.testing import witness
    witness.LOOK_S = 0.05
    over = threading.Event()
    kafka_cluster._running.loop.call_soon_threadsafe(over.wait, 10)
    threading.Timer(1, over.set).start()
    assert 1 == 2
""",
    )
    assert "assert 1 == 2" in played.text
    [[first, *_]] = played.sections
    assert "What is stuck cannot be told (TimeoutError): its event loop is busy for 0.05 s." == first


# ---------------------------------------------------------------------- tracebacks

ENDING = """
def test_unmet(kafka_cluster):
    kafka_cluster.add_rule(rule("END_TXN", name="mine", drop=True, expect=1))

def test_verify(kafka_cluster):
    kafka_cluster.add_rule(rule("END_TXN", name="mine", drop=True, expect=1))
    kafka_cluster.verify()

def test_unmet_at_the_end_of_the_cluster():
    with Cluster(rules=[rule("END_TXN", name="mine", drop=True, expect=1)]):
        pass

def test_wait(kafka_cluster):
    kafka_cluster.wait(transaction={"id": "till-1", "state": "Ongoing"}, timeout_s=0.01)

def test_wait_for_no_rule(kafka_cluster):
    kafka_cluster.wait(rule={"name": "nope"}, timeout_s=0.01)

def test_wait_for(kafka_cluster):
    kafka_cluster.wait_for(lambda: False, timeout_s=0.01)

def test_no_such_partition(kafka_cluster):
    kafka_cluster.leader("nope", 0)

def test_no_argument(kafka_cluster):
    kafka_cluster.leader(1, 0)

def reply(call):
    raise ZeroDivisionError("in reply")

def test_a_function_of_a_rule(kafka_cluster):
    kafka_cluster.add_rule(rule("METADATA", reply=reply))
    with BlockingClient(kafka_cluster.bootstrap, client_id="t", timeout_s=1) as client:
        client.ask(MetadataRequest(topics=[]), 12)
"""


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("ending"), ENDING)


def test_an_unmet_rule_is_the_sentence_alone(ending: Played) -> None:
    said = SECTION.split(ending.test("test_unmet"))[0].splitlines()[1:]
    assert ["Rule mine expects 1 hit and had 0 hits; no request matched."] == said


@pytest.mark.parametrize(
    "name",
    [
        "test_verify",
        "test_unmet_at_the_end_of_the_cluster",
        "test_wait",
        "test_wait_for_no_rule",
        "test_wait_for",
        "test_no_such_partition",
        "test_no_argument",
    ],
)
def test_a_traceback_ends_with_the_line_of_the_test(ending: Played, name: str) -> None:
    said = SECTION.split(ending.test(name))[0]
    assert ["test_it.py"] == re.findall(r"^(\S+\.py):\d+: \w+$", said, re.MULTILINE), said
    assert "odradek/" not in said
    assert 1 == len(re.findall("^>", said, re.MULTILINE)), said


def test_what_a_function_of_a_rule_raises_is_shown_where_it_was_raised(ending: Played) -> None:
    said = SECTION.split(ending.test("test_a_function_of_a_rule"))[0]
    assert '>       raise ZeroDivisionError("in reply")' in said or '>   raise ZeroDivisionError("in reply")' in said, (
        said
    )


def test_with_unittest_alone_a_note_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text(
        HEAD
        + """
class T(unittest.TestCase):
    def test_times_out(self):
        with Cluster(topics=["t"]) as cluster:
            forgets_to_release(cluster)

    def test_unmet(self):
        with Cluster(rules=[rule("END_TXN", name="mine", drop=True, expect=1)]):
            pass

    def test_skipped(self):
        with Cluster():
            self.skipTest("today")

    def test_passes(self):
        with Cluster():
            pass

unittest.main()
"""
    )
    events = tmp_path / "events"
    path = os.pathsep.join([str(ROOT / "broker"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "ODRADEK_EVENTS_DIR": str(events)}
    command = [sys.executable, str(tmp_path / "it.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    assert "FAILED (failures=1, errors=1, skipped=1)" in done.stderr, done.stderr
    assert re.search(rf"^(TimeoutError|socket\.timeout): timed out\n{FORGOTTEN}", done.stderr, re.MULTILINE)
    unmet = done.stderr[done.stderr.index("FAIL: test_unmet") :]
    assert "proof.py" not in unmet
    assert "AssertionError: Rule mine expects 1 hit and had 0 hits; no request matched.\nRule mine expects" in unmet
    assert 2 == len(list(events.iterdir()))


# ---------------------------------------------------------------------- a real client


@pytest.mark.client
def test_a_real_client_that_times_out(tmp_path: Path) -> None:
    played = play(
        tmp_path,
        """
def test_commit(kafka_cluster):
    from confluent_kafka import Producer
    kafka_cluster.add_rule(rule("END_TXN", name="commit", hold=True))
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap, "transactional.id": "till-1"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("t", b"one coffee")
    producer.commit_transaction(0.5)
""",
    )
    assert "_TIMED_OUT" in played.text, played.text
    [[first, *_]] = played.sections
    assert re.match(r"Rule commit holds END_TXN v\d+ of rdkafka at broker 1 transactional_id=till-1 ", first)


# ---------------------------------------------------------------------- what it costs where it is not used


def modules(folder: Path, *options: str) -> set[str]:
    """The modules that a run of pytest has imported."""
    (folder / "test_a.py").write_text("def test_nothing():\n    pass\n")
    program = (
        "import sys, pytest\n"
        f"assert 0 == pytest.main(['-q', '-p', 'no:cacheprovider', '-c', '/dev/null', '--rootdir', {str(folder)!r},"
        f" *{list(options)!r}, {str(folder / 'test_a.py')!r}])\n"
        "print('modules:', *sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "broker"), **ALONE}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return set(done.stdout.rpartition("modules: ")[2].split())


def test_the_plugin_imports_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    more = modules(tmp_path, "-p", "odradek.testing.pytest_plugin") - modules(tmp_path)
    assert {"odradek", "odradek.testing", "odradek.testing.pytest_plugin"} == more


def test_every_public_name_is_found() -> None:
    import odradek.testing

    assert set(odradek.testing.__all__) <= set(dir(odradek.testing))
    for name in odradek.testing.__all__:
        assert getattr(odradek.testing, name).__name__ == name
    with pytest.raises(AttributeError, match=r"module 'odradek\.testing' has no attribute 'Clutser'"):
        odradek.testing.Clutser  # type: ignore[attr-defined]  # noqa: B018


def test_asserts_of_odradek_are_not_rewritten(tmp_path: Path) -> None:
    """A broker imports modules in its own thread, and rewriting in two threads fails in CPython 3.11."""
    (tmp_path / "conftest.py").write_text("import pytest\npytest.register_assert_rewrite('odradek')\n")
    test = """
def test_it():
    from importlib.util import find_spec
    assert type(find_spec("odradek.data.produce").loader).__name__ == "SourceFileLoader"
"""
    assert 0 == play(tmp_path, test, files=False).code


DAMAGED = """
import warnings

@pytest.fixture
def damaged(tmp_path):
    with Cluster(data_dir=tmp_path / "data", topics=["t"]) as cluster:
        till = Till(cluster.bootstrap)
        till.add(), till.send(b"x"), till.end(), till.close()
    for each in (tmp_path / "data" / "t-0").glob("*.log"):
        each.unlink()
    return tmp_path / "data"

def test_passes(damaged):
    with Cluster(data_dir=damaged):
        pass

def test_fails(damaged):
    with Cluster(data_dir=damaged):
        assert False

def test_fails_later(damaged):
    with Cluster(data_dir=damaged):
        pass
    assert False

async def play(damaged):
    async with Cluster(data_dir=damaged):
        pass

def test_is_an_error(damaged):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match="^file_damaged"):
            Cluster(data_dir=damaged).__enter__()
    with Cluster(data_dir=damaged) as again:
        assert [] == again.warnings

def test_is_an_error_in_a_loop(damaged):
    import asyncio
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match="^file_damaged"):
            asyncio.run(play(damaged))
    with Cluster(data_dir=damaged) as again:
        assert [] == again.warnings
"""


def test_damage_of_a_data_directory_is_told(tmp_path: Path) -> None:
    """To whoever reads the summary of a run that passes, and in the report of a test that fails."""
    ended = play(tmp_path, DAMAGED)
    assert "2 failed, 3 passed, 3 warnings" in ended.text
    line = "t-0 reason=it ends at offset 0, and everything up to 2 was on the device"
    for name in ("passes", "fails", "fails_later"):
        assert re.search(rf"DataDirWarning: file_damaged file=.*test_{name}0/data/{line}\n    with Cluster", ended.text)
    for name in ("test_fails", "test_fails_later"):
        assert re.search(rf"^In the data directory: file_damaged file=.*/{line}$", ended.test(name), re.MULTILINE)
    assert "directory: " not in "".join(play(tmp_path, UNNAMED).sections[0])
