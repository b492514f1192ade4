"""docker/: read by Docker's own parsers, and every command of it run here, in an environment built as the image is."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient
from tests.packaging.image import BuiltImage, build_image, context_files
from tests.packaging.processes import METRICS, Places, produce_and_consume, serving
from tests.packaging.tools import ROOT, declared, go_tool, said

from odradek.demo.director import consume_command, produce_command
from odradek.demo.options import DemoOptions
from odradek.demo.producer import CRASHED

pytestmark = [pytest.mark.slow, pytest.mark.builds]

DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
PROMETHEUS = ROOT / "docker" / "prometheus.yaml"
TIMEOUT_S = 60
OWN = ("odradek", "producer", "consumer")


@pytest.fixture(scope="module")
def dockerfile() -> Any:
    return declared("dockerfile", DOCKERFILE)


@pytest.fixture(scope="module")
def services() -> Any:
    return declared("compose", COMPOSE)["services"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    return build_image(DOCKERFILE, tmp_path_factory.mktemp("image"))


# ------------------------------------------------------------------ the Dockerfile


def test_docker_has_nothing_to_say_against_the_dockerfile(dockerfile: Any) -> None:
    assert [] == dockerfile["warnings"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("FROM a as b\n", "FromAsCasing"),
        ("FROM a\nCMD odradek serve\n", "JSONArgsRecommended"),
        ("FROM a\nENV SECRET_TOKEN=x\n", "SecretsUsedInArgOrEnv"),
        ("FROM a\nWORKDIR here\nRUN echo $nothing\nCOPY --from=gone x y\nSERVE\n", "unknown instruction"),
    ],
)
def test_it_would_say_so(tmp_path: Path, text: str, complaint: str) -> None:
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(text)
    done = said(go_tool("declared"), "dockerfile", wrong)
    assert complaint in done.stdout + done.stderr


def test_the_image_is_slim_and_nobody_is_root_in_it(dockerfile: Any) -> None:
    assert 2 == len(dockerfile["stages"])
    assert all(stage["base"].endswith("-slim") for stage in dockerfile["stages"])
    assert dockerfile["image"]["User"] not in ("", "root", "0")
    assert ["odradek"] == dockerfile["image"]["Entrypoint"]
    assert "CMD" == dockerfile["image"]["Healthcheck"]["Test"][0]  # without a shell


def test_the_build_context_holds_what_is_needed_and_no_more() -> None:
    assert 100 < len(context_files("broker"))
    assert [] == context_files("broker/odradek/wire/messages")
    assert [Path("README.md")] == context_files("README.md")
    for nothing in (".git", "tests", "docs", "Makefile"):
        assert [] == context_files(nothing)


@pytest.mark.client
def test_the_image_serves_and_is_healthy(image: BuiltImage) -> None:
    here = Places()
    check = image.within(here.each(image.config["Healthcheck"]["Test"][1:]))
    assert 1 == said(*check, env=image.env).returncode
    with serving(image.entrypoint + here.each(image.config["Cmd"]), image.env) as (broker, bootstrap):
        assert 0 == said(*check, env=image.env).returncode
        produce_and_consume(bootstrap)
        assert b"odradek_requests_total" in page(here.ports[METRICS])
        broker.send_signal(signal.SIGTERM)  # what `docker stop` sends
        assert 0 == broker.wait(TIMEOUT_S)


def test_nothing_in_the_files_is_dockers_alone(dockerfile: Any, services: Any) -> None:
    for check in (dockerfile["image"]["Healthcheck"], services["odradek"]["healthcheck"]):
        assert not {"StartInterval", "start_interval"} & set(check)


@pytest.mark.client
def test_another_command_is_still_reached_from_outside(image: BuiltImage) -> None:
    command = Places().each(["serve", "--port", "9092", "--brokers", "3"])
    with serving(image.entrypoint + command, image.env) as (_, bootstrap):
        assert {"localhost"} == {address.rpartition(":")[0] for address in bootstrap.split(",")}  # all addresses


@pytest.mark.client
def test_the_image_makes_certificates_and_asks_who_comes(image: BuiltImage) -> None:
    command = Places().each(["serve", "--port", "9092", "--security", "sasl-ssl", "--user", "alice:alice-secret"])
    with serving(image.entrypoint + command, image.env) as (_, bootstrap):
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "enable.ssl.certificate.verification": False,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        assert 1 == len(AdminClient(settings).list_topics(timeout=TIMEOUT_S).brokers)


def test_the_image_is_told_of_its_ports(image: BuiltImage) -> None:
    assert {f"{port}/tcp" for port in Places().ports} == set(image.config["ExposedPorts"])


# ------------------------------------------------------------------ the compose file


def test_the_services(services: Any) -> None:
    assert {*OWN, "prometheus"} == set(services)
    assert {"odradek"} == {services[name]["image"] for name in OWN}
    assert "docker/Dockerfile" == services["odradek"]["build"]["dockerfile"]
    assert str(ROOT) == services["odradek"]["build"]["context"]
    for player in ("producer", "consumer"):
        assert "service_healthy" == services[player]["depends_on"]["odradek"]["condition"]
    assert "on-failure" == services["producer"]["restart"]


def test_a_wrong_compose_file_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("depends_on:", "depends_upon:"))
    done = said(go_tool("declared"), "compose", wrong)
    assert 1 == done.returncode
    assert "depends_upon" in done.stderr


@pytest.mark.client
def test_every_command_of_the_compose_file(image: BuiltImage, services: Any) -> None:
    here = Places()
    commands = {name: image.entrypoint + here.each(services[name]["command"]) for name in OWN}
    check = services["odradek"]["healthcheck"]["test"]
    assert "CMD" == check[0]
    with serving(commands["odradek"], image.env):
        assert 0 == said(*image.within(here.each(check[1:])), env=image.env).returncode
        assert b'odradek_requests_total{broker="3"}' in page(here.ports[METRICS])
        with playing(commands["consumer"], image.env) as consumer:
            # Sooner than in the containers, where Docker waits the longer the shorter the lives are.
            often = [word.replace("--crash-every=400", "--crash-every=5") for word in commands["producer"]]
            assert often != commands["producer"]
            with playing(often, image.env) as producer:
                assert CRASHED == producer.wait(TIMEOUT_S)
            while True:  # what crashes before it has said so is started again, as its restart policy does
                with playing(commands["producer"], image.env) as producer:
                    assert producer.stdout is not None
                    if any("transactions committed" in line for line in producer.stdout):
                        producer.terminate()
                        assert 0 == producer.wait(TIMEOUT_S)
                        break
                    assert CRASHED == producer.wait(TIMEOUT_S)
            assert consumer.stdout is not None
            assert next(line for line in consumer.stdout if "records read" in line)
            consumer.terminate()
            assert 0 == consumer.wait(TIMEOUT_S), "the consumer saw what it must not"


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("producer", produce_command(DemoOptions(), "odradek:9092", number=1, life=0)),
        ("consumer", consume_command(DemoOptions(), "odradek:9092")),
    ],
)
def test_the_demo_on_this_machine_runs_the_same_commands(services: Any, service: str, command: list[str]) -> None:
    words = [word for given in services[service]["command"] for word in given.split("=")]
    assert {word for word in words if word.startswith("--")} <= set(command)
    assert words[:2] == command[3:5]


@contextmanager
def playing(command: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def page(port: int) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        read: bytes = answer.read()
    return read


# ------------------------------------------------------------------ Prometheus


def test_prometheus_reads_the_page_of_the_brokers(services: Any, dockerfile: Any) -> None:
    config = declared("yaml", PROMETHEUS)
    assert {"global", "scrape_configs"} == set(config)
    assert {"scrape_interval"} == set(config["global"])
    (job,) = config["scrape_configs"]
    assert {"job_name", "static_configs"} == set(job)  # path and scheme are Prometheus's defaults
    assert [{"targets": [f"odradek:{METRICS}"]}] == job["static_configs"]
    assert f"--metrics-port={METRICS}" in services["odradek"]["command"]
    assert "ODRADEK_HOST=0.0.0.0" in dockerfile["image"]["Env"]
    assert not any(word.startswith("--host") for word in services["odradek"]["command"])
    (mounted,) = services["prometheus"]["volumes"]
    assert (str(PROMETHEUS), "/etc/prometheus/prometheus.yml") == (mounted["source"], mounted["target"])
