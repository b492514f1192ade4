"""The helpers for other languages play their examples against a real hub, and a rule that was hit in vain fails."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import fields
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need, node_modules

from odradek.cli.logs import make_logger
from odradek.control.messages.clusters import NewCluster
from odradek.replay.replay import Replay

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
HELPERS = ROOT / "helpers"
OURS = {
    "go": r"\bodradek\.go:\d+",
    "node": r"\bodradek\.mjs:\d+",
    "java": r"\bat dev\.odradek\.(Hub|Cluster|OdradekExtension)\b",
}
"""Frames of the helpers, which are no part of what a test has to say."""
LINES_MAX = 400
READY_S = 60


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `odradek` of this checkout."""
    script = tmp_path_factory.mktemp("bin") / "odradek"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "broker"}" exec "{sys.executable}" -m odradek "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script.parent


@pytest.fixture(scope="module")
def hub(command: Path) -> Iterator[str]:
    """The URL of a hub that runs already."""
    arguments = [
        str(command / "odradek"),
        "hub",
        "--listen",
        "127.0.0.1:0",
        "--until-stdin-ends",
        "--log-level",
        "error",
    ]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        line = process.stdout.readline()
        assert line.startswith("odradek hub ready url="), line
        yield line.strip().removeprefix("odradek hub ready url=")
        process.stdin.close()
        assert 0 == process.wait(READY_S)


class Suite:
    """The example of one language in a folder of its own, with the helper beside it."""

    def __init__(
        self, language: str, folder: Path, run: Callable[[Path, str | None], list[str]], wrong: tuple[str, str]
    ):
        self.folder = folder / language
        self._run = run
        self._wrong = wrong
        shutil.copytree(HELPERS / language, self.folder, ignore=shutil.ignore_patterns("node_modules", "target"))

    def play(self, environment: Mapping[str, str], only: str | None = None) -> subprocess.CompletedProcess[str]:
        where = self.folder if (self.folder / "pom.xml").exists() else self.folder / "example"
        return subprocess.run(
            self._run(where, only),
            cwd=where,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def expect_what_is_not_so(self) -> None:
        """Have the first case expect that its rule is not hit."""
        before, after = self._wrong
        changed = 0
        for file in self.folder.rglob("*ard*ases*"):
            text = file.read_text()
            if before in text:
                file.write_text(text.replace(before, after, 1))
                changed += 1
        assert 1 == changed


def _go(where: Path, only: str | None) -> list[str]:
    need("go")
    return ["go", "test", "-count=1", "-v", *(["-run", only] if only else []), "./..."]


def _node(where: Path, only: str | None) -> list[str]:
    need("node")
    modules = where / "node_modules"
    if not modules.exists():
        modules.symlink_to(node_modules(HELPERS / "node" / "example"))
    return ["node", "--test", "--test-reporter=tap", *([f"--test-name-pattern={only}"] if only else [])]


def _java(where: Path, only: str | None) -> list[str]:
    need("java", "mvn")
    return ["mvn", "-B", "-q", "test", *([f"-Dtest=HardCasesTest#{only}"] if only else [])]


FORGOTTEN = {
    "go": (
        "example/forgotten_test.go",
        """package example

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	odradek "odradek.dev/helpers/go"
)

func TestForgotten(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{Topics: []string{"orders"}})
	cluster.Arm(odradek.Rule{Name: "commit", Match: odradek.Match{"api": "END_TXN"}, Act: odradek.Act{"hold": true}})
	client := till(t, cluster)
	send(t, client, "the value of a record")
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := client.EndTransaction(limited, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

func TestPasses(t *testing.T) {
	odradek.New(t, odradek.Options{})
}

func TestVain(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{})
	transaction := map[string]any{"id": "x", "state": "Empty"}
	cluster.Post(map[string]any{"timeout_ms": 1, "transaction": transaction}, nil, "wait")
}
""",
    ),
    "node": (
        "example/forgotten.test.mjs",
        """import { test } from 'node:test'
import kafkajs from 'kafkajs'
import { newCluster } from '../odradek.mjs'

test('forgotten', async (t) => {
  const cluster = await newCluster(t, { topics: ['orders'] })
  await cluster.arm({ name: 'commit', match: { api: 'END_TXN' }, act: { hold: true } })
  const kafka = new kafkajs.Kafka({ brokers: cluster.brokers, logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer({ transactionalId: 'till-1', maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  t.after(() => producer.disconnect())
  const transaction = await producer.transaction()
  await transaction.send({ topic: 'orders', messages: [{ value: 'the value of a record' }] })
  transaction.commit().catch(() => {})
  await cluster.wait({ rule: { name: 'commit', held: 1 } })
  throw new Error('the commit takes too long')
})

test('passes', async (t) => {
  await newCluster(t)
})

test('vain', async (t) => {
  const cluster = await newCluster(t)
  await cluster.wait({ timeout_ms: 1, transaction: { id: 'x', state: 'Empty' } })
})
""",
    ),
    "java": (
        "src/test/java/dev/odradek/example/ForgottenTest.java",
        """package dev.odradek.example;

import dev.odradek.Cluster;
import dev.odradek.Odradek;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

@Odradek(topics = "orders")
class ForgottenTest {
    @Test
    void forgotten(Cluster cluster) {
        cluster.arm(Map.of("name", "commit", "match", Map.of("api", "END_TXN"), "act", Map.of("hold", true)));
        Map<String, Object> settings = new HashMap<>(cluster.settings());
        settings.putAll(Map.of("transactional.id", "till-1", "max.block.ms", 5000));
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        try {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "the value of a record"));
            producer.flush();
            producer.commitTransaction();
        } finally {
            producer.close(java.time.Duration.ZERO);
        }
    }

    @Test
    void passes(Cluster cluster) {}

    @Test
    void vain(Cluster cluster) {
        cluster.post(Map.of("timeout_ms", 1, "transaction", Map.of("id", "x", "state", "Empty")), "wait");
    }
}
""",
    ),
}
"""A test that has forgotten a rule that holds, one that passes, and one that waits in vain."""


SUITES: dict[str, tuple[Callable[[Path, str | None], list[str]], tuple[str, str], str]] = {
    "go": (_go, ("odradek.Hits(1)", "odradek.Hits(0)"), "TestACommitWhoseAnswerIsLost"),
    "node": (_node, ("expect: { hits: 3 }", "expect: { hits: 0 }"), "a former self"),
    "java": (_java, ('Map.of("hits", 1)', 'Map.of("hits", 0)'), "aCommitWhoseAnswerIsLost"),
}


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> Suite:
    run, wrong, _ = SUITES[request.param]
    return Suite(request.param, tmp_path, run, wrong)


def test_the_example_passes(suite: Suite, hub: str) -> None:
    with with_toolchains(suite.folder.name):
        done = suite.play({"ODRADEK_HUB": hub})
    assert 0 == done.returncode, done.stdout + done.stderr


def test_a_hub_is_started_where_none_runs_and_an_unmet_rule_fails_the_test(suite: Suite, command: Path) -> None:
    suite.expect_what_is_not_so()
    environment = {"PATH": f"{command}:{os.environ['PATH']}", "ODRADEK_HUB": ""}
    environment["ODRADEK_EVENTS_DIR"] = str(suite.folder / "events")
    environment["ODRADEK_RECORD_DIR"] = str(suite.folder / "recordings")
    with with_toolchains(suite.folder.name):
        done = suite.play(environment, SUITES[suite.folder.name][2])
    assert 0 != done.returncode, done.stdout + done.stderr
    hits = 3 if suite.folder.name == "node" else 1
    assert f"expects no hit and had {hits} hit" in done.stdout + done.stderr, done.stdout + done.stderr
    [recording] = (suite.folder / "recordings").iterdir()
    played = asyncio.run(Replay(recording).play(make_logger(level="error")))
    assert played.difference is None, played.text
    assert played.player.answers > 5


LEFT_OUT = {"id", "node_ids", "port", "advertised_host", "lease_s", "rules"}
"""Options of a cluster that a test has other means for, or no need of."""


@pytest.mark.parametrize(
    ("source", "where", "option"),
    [
        ("go/odradek.go", r"type Options struct \{(.*?)\n\}", r'json:"(\w+),omitempty"'),
        ("java/src/main/java/dev/odradek/OdradekExtension.java", r"(.*)", r'options\.put\("(\w+)"'),
    ],
)
def test_a_helper_has_every_option_of_a_cluster(source: str, where: str, option: str) -> None:
    """Node passes on whatever it gets."""
    found = re.search(where, (HELPERS / source).read_text(), re.DOTALL)
    assert found is not None
    known = {field.encode_name for field in fields(NewCluster)}
    assert sorted(known - LEFT_OUT) == sorted(re.findall(option, found[1]))


def test_a_test_that_fails_says_what_its_cluster_knew(suite: Suite, hub: str, tmp_path: Path) -> None:
    language, events = suite.folder.name, tmp_path / "events"
    name, text = FORGOTTEN[language]
    for case in suite.folder.rglob("*ard*ases*"):
        case.write_text(_without_tests(case.read_text())) if language == "go" else case.unlink()
    (suite.folder / name).write_text(text)
    with with_toolchains(language):
        done = suite.play({"ODRADEK_HUB": hub, "ODRADEK_EVENTS_DIR": str(events)})
    said = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)  # colours
    assert 0 != done.returncode, said
    sections = re.split(r"^.*\bodradek$", said, flags=re.MULTILINE)[1:]
    assert 2 == len(sections), said
    firsts = [section.strip().splitlines()[0].lstrip("# ") for section in sections]
    assert 1 == sum(first.startswith("Rule commit holds END_TXN v") for first in firsts), said
    assert 1 == sum(first.startswith("Nothing is stuck") for first in firsts), said
    files = sorted(re.findall(r"All events: (\S+)", said))
    assert sorted(map(str, events.iterdir())) == files
    for file in files:
        lines = Path(file).read_text()
        assert [json.loads(line)["seq"] for line in lines.splitlines()] == list(range(1, lines.count("\n") + 1))
    assert "request END_TXN v" in said
    assert "the value of a record" not in said
    assert "fter 1 ms: no coordinator knows x" in said
    assert not re.search(OURS[language], said), said


def _without_tests(source: str) -> str:
    """The same for Go, whose examples share a package: their tests are no tests."""
    return re.sub(r"^func Test", "func NoTest", source, flags=re.MULTILINE)


def test_a_hub_that_ends_before_it_is_ready_is_not_waited_for(suite: Suite, tmp_path: Path) -> None:
    """As without the extra `control`; what it says about that is told."""
    script = tmp_path / "bin" / "odradek"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho 'odradek: this needs the extra control' >&2\nexit 2\n")
    script.chmod(0o755)
    environment = {"PATH": f"{script.parent}:{os.environ['PATH']}", "ODRADEK_HUB": ""}
    with with_toolchains(suite.folder.name):
        done = suite.play(environment, SUITES[suite.folder.name][2])
    said = done.stdout + done.stderr
    assert 0 != done.returncode, said
    assert re.search(r"[Nn]o hub: .odradek hub. has ended", said.replace('"', "`")), said
    assert "this needs the extra control" in said


@pytest.mark.parametrize("language", SUITES)
def test_a_helper_is_short(language: str) -> None:
    sources = [*(HELPERS / language).glob("*.go"), *(HELPERS / language).glob("*.mjs")]
    # The container is beside it: who uses it has Testcontainers.
    sources += [path for path in HELPERS.glob(f"{language}/src/main/**/*.java") if path.stem != "OdradekContainer"]
    assert 0 < sum(len(source.read_text().splitlines()) for source in sources) <= LINES_MAX
