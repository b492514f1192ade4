"""Commands of the pages about the hub, rules, security and other languages, typed as they stand, from the top."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from tests.clients.driver import tool
from tests.clients.lacking import with_toolchains
from tests.packaging.processes import Places, environment, serving
from tests.packaging.test_tour import FENCED, PROMISE, finished
from tests.packaging.tools import ROOT, said

from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]

TIMEOUT_S = 60
INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
CONTINUED = re.compile(r"\\\n\s*")
COMMENT = re.compile(r"\s+# ")
CLIENT = """
import json, subprocess
from confluent_kafka import Producer

settings = json.loads(subprocess.check_output(["odradek", "ctl", "access", "librdkafka"]))
till = Producer({**settings, "transactional.id": "till-1"})
till.init_transactions(30)
till.begin_transaction()
till.produce("orders", "one coffee")
till.commit_transaction(30)
"""
PRINTS = {
    "odradek ctl access librdkafka": '"bootstrap.servers"',
    "odradek ctl why": "Rule markers holds WRITE_TXN_MARKERS",
    "odradek ctl why till-1": "Transaction till-1 is PrepareCommit",
    "odradek ctl transactions": "PrepareCommit",
    "odradek ctl parked": "markers",
    "odradek ctl time --advance 7d": "7 days",
    "odradek ctl events --kind state_change,marker_written": "CompleteCommit",
    "odradek ctl show": "cluster ",
}
"""What commands of the session on the page of the hub print."""


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def fenced(name: str, language: str) -> list[str]:
    """The blocks of this language on a page."""
    return [code for each, code in FENCED.findall(page(name)) if each == language]


def indented(name: str, word: str) -> list[str]:
    """The indented blocks of a page that begin with this word, each command on one line."""
    blocks = (re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in INDENTED.findall(page(name)))
    lines = (CONTINUED.sub("", block).strip() for block in blocks)
    return [block for block in lines if block.startswith(word)]


class Reader:
    """A terminal in a folder of its own, and ports that are free here in place of those of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = Places(9093)
        self.env = environment(Path(sys.prefix), ODRADEK_HUB=self.places("http://127.0.0.1:9644"))

    def prints(self, code: str) -> str:
        """What a line for the shell prints that ends well."""
        return finished("sh", "-ec", self.places(code), cwd=self.folder, env=self.env)

    def words(self, line: str) -> list[str]:
        """A command that serves, on ports that are free here."""
        words = shlex.split(line, comments=True)
        port = [] if "listeners=" in line else ["--port", "9092"]
        return self.places.each([*words, *port])

    def kafka(self, command: str) -> None:
        """Runs a tool of Kafka's that is named as in its distribution."""
        name, *words = shlex.split(self.places(command))
        assert "kafka-configs" == name
        with with_toolchains(name):
            tool("kafka.admin.ConfigCommand", *words)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.fixture
def hub(reader: Reader) -> Iterator[Reader]:
    """A reader beside whom a hub runs."""
    command = ["odradek", "hub", "--listen", reader.places("9644"), "--until-stdin-ends"]
    with subprocess.Popen(
        command, env=reader.env, cwd=reader.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith("odradek hub ready")
        yield reader
        process.stdin.close()
        process.wait(TIMEOUT_S)


def produced(settings: dict[str, str], topic: str = "orders") -> KafkaError | None:
    """The error of one record, None if it is in the log."""
    errors: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(topic, "one coffee", on_delivery=lambda error, _: errors.append(error))
    assert 0 == producer.flush(TIMEOUT_S)
    return errors[0]


# ---------------------------------------------------------------------------------------------------- hub.md


def test_the_hub_by_curl(hub: Reader) -> None:
    first, *lines = fenced("hub", "sh")[0].splitlines()
    assert first.startswith("odradek hub &")
    promised = [line.removeprefix("# ").partition("127.0.0.1")[0] for line in lines if line.startswith("# ")]
    printed = hub.prints("\n".join(lines).replace("curl ", "curl -fsS "))
    assert 2 == len(promised)
    assert all(each in printed for each in promised), printed


def test_the_python_of_the_hub(hub: Reader) -> None:
    [code] = fenced("hub", "python")
    printed = finished(sys.executable, "-c", hub.places(code), cwd=hub.folder, env=hub.env)
    assert PROMISE.findall(code) == printed.splitlines()


def test_the_session_at_the_command_line(hub: Reader) -> None:
    (hub.folder / "client.py").write_text(CLIENT)
    lines = fenced("hub", "sh")[1].splitlines()
    assert PRINTS.keys() <= {COMMENT.split(line)[0] for line in lines}
    with ExitStack() as ends:
        for line in lines:
            command = COMMENT.split(line)[0]
            if command == "your-client-commits &":
                client = subprocess.Popen([sys.executable, "client.py"], cwd=hub.folder, env=hub.env)
                ends.callback(client.kill)
                continue
            printed = hub.prints(command)
            assert PRINTS.get(command, "") in printed, f"{command}: {printed}"
            assert not printed or "# prints nothing" not in line, f"{command}: {printed}"
        assert 0 == client.wait(TIMEOUT_S)


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_curl_and_jq_alone(hub: Reader) -> None:
    (hub.folder / "client.py").write_text(CLIENT)
    [code] = fenced("other-languages", "sh")
    printed = hub.prints(code.replace("your-client-commits", f"{sys.executable} client.py"))
    assert "Rule lost closed the connection of one request" in printed
    assert printed.endswith("true\n"), printed


# -------------------------------------------------------------------------------------------------- rules.md


def test_a_plan_that_is_served(reader: Reader) -> None:
    plan, more = fenced("rules", "yaml")
    (reader.folder / "late.yaml").write_text(plan)
    [line] = fenced("rules", "sh")
    command, sentence = re.split(r"\s+# exit code 3 after Ctrl-C: ", line.strip())
    with subprocess.Popen(
        reader.words(command),
        env=reader.env,
        cwd=reader.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("odradek ready")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert 3 == process.returncode
    assert f"odradek: {sentence}" == errors.splitlines()[-1]
    (reader.folder / "more.yaml").write_text(more)
    with Cluster(topics=["orders"], rules=str(reader.folder / "more.yaml")):
        pass


def test_what_is_wrong_with_a_plan(reader: Reader) -> None:
    [sentence] = indented("rules", "late.yaml:")
    wrong = fenced("rules", "yaml")[0].replace("PRODUCE", "PRODUC")
    (reader.folder / "late.yaml").write_text(wrong)
    done = said(*reader.words("odradek serve --faults late.yaml"), cwd=reader.folder, env=reader.env)
    assert (2, f"odradek: {sentence}\n") == (done.returncode, done.stderr)


def test_what_is_said_of_a_rule_that_is_unmet(reader: Reader) -> None:
    [sentence] = indented("rules", "Rule late expects")
    (reader.folder / "late.yaml").write_text(fenced("rules", "yaml")[0])
    with pytest.raises(AssertionError) as raised:
        sells_from_menus(reader.folder / "late.yaml")
    assert sentence.replace("\n", " ") == str(raised.value)


def sells_from_menus(plan: Path) -> None:
    """A transaction of a client, which the plan does not mean."""
    with Cluster(topics=["orders", "menus"], rules=str(plan)) as cluster:
        till = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-1", "log_level": 2})
        till.init_transactions(TIMEOUT_S)
        till.begin_transaction()
        till.produce("menus", "one coffee")
        till.commit_transaction(TIMEOUT_S)


# ----------------------------------------------------------------------------------------------- security.md


def advice(process: subprocess.Popen[str], client: str) -> dict[str, str]:
    """The settings that `odradek serve --security` prints for this client."""
    assert process.stdout is not None
    for line in process.stdout:
        if line == f"# {client}\n":
            break
    lines = iter(process.stdout.readline, "\n")
    return dict(line.strip().split("=", 1) for line in lines)


def certificate_of(port: int, authority: Path) -> bytes:
    """The certificate that a broker shows; SSLError if the authority did not make it."""
    return ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(authority)).encode()


def test_logins_in_one_word(reader: Reader) -> None:
    [line, *_] = indented("security", "odradek serve --security")
    with serving(reader.words(line), reader.env, cwd=reader.folder) as (process, _):
        settings = advice(process, "librdkafka")
        assert produced(settings) is None
        wrong = {**settings, "sasl.password": "wrong", "message.timeout.ms": "2000", "log_level": "2"}
        assert produced(wrong) is not None


def test_tokens_and_permissions(reader: Reader) -> None:
    _, tokens, permissions = indented("security", "odradek serve --security")
    with serving(reader.words(tokens), reader.env, cwd=reader.folder) as (process, _):
        assert produced(advice(process, "librdkafka")) is None
    with serving(reader.words(permissions), reader.env, cwd=reader.folder) as (process, _):
        admin = advice(process, "librdkafka")
        assert produced(admin) is None
        refused = produced({**admin, "sasl.username": "alice", "sasl.password": "alice-secret"})
        assert refused is not None
        assert KafkaError.TOPIC_AUTHORIZATION_FAILED == refused.code()


def test_listeners_certificates_and_tools(reader: Reader) -> None:
    [certificates] = indented("security", "odradek certs certs")
    reader.prints(certificates)
    made = {"ca.pem", "server.pem", "alice.pem", "bob.pem", "truststore.p12", "server.p12", "alice.p12", "password.txt"}
    assert made <= {each.name for each in (reader.folder / "certs").iterdir()}
    [listeners] = indented("security", "odradek serve --set")
    renew, keystore = indented("security", "odradek certs renewed")[0].splitlines()
    [quota] = indented("security", "kafka-configs")
    with serving(reader.words(listeners), reader.env, cwd=reader.folder) as (_, bootstrap):
        inside, outside = reader.places.ports[9092], reader.places.ports[9093]
        assert bootstrap.endswith(str(inside))
        assert produced({"bootstrap.servers": bootstrap}) is None
        first = certificate_of(outside, reader.folder / "certs" / "ca.pem")
        reader.prints(renew)
        reader.kafka(keystore)
        assert first != certificate_of(outside, reader.folder / "renewed" / "ca.pem")
        reader.kafka(quota)


def test_the_python_of_security(tmp_path: Path) -> None:
    for code in fenced("security", "python"):
        finished(sys.executable, "-c", code, cwd=tmp_path, env=environment(Path(sys.prefix)))
