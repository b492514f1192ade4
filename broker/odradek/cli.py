"""The command `odradek`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odradek import __version__
from odradek.commands import Argument, Commands, Option
from odradek.parent import UntilStdinEnds, end_with_stdin
from odradek.usage import READY, Unmet, UsageError

if TYPE_CHECKING:
    from odradek.control.plan import Plan
    from odradek.net.cluster import RunningCluster
    from odradek.net.prepared import Prepared
    from odradek.net.serve import Hosting
    from odradek.node.hosting.controller import StartTopic
    from odradek.node.node import Logger
    from odradek.node.rules.model import Rule
    from odradek.releases import Release

__all__ = ["main"]

ABOUT = "A Kafka broker stub that runs the real transaction machinery."
GROUPS = {
    "audit": "Did exactly-once hold? Audits of log directories, client histories and the broker's events.",
    "ctl": "Drive the clusters of a hub (odradek hub, odradek serve --control).",
}
HOST_VARIABLE = "ODRADEK_HOST"  # an image says it once, for whatever command it is given


def serve(
    host: Annotated[
        str | None, Option(help="Address to listen on; without it $ODRADEK_HOST, or else 127.0.0.1.")
    ] = None,
    port: Annotated[int, Option(help="Port of the first broker; 0 picks a free one for each.")] = 9092,
    advertised_host: Annotated[
        str | None, Option(help="Host that clients are told, if it is not the one listened on.")
    ] = None,
    advertised_port: Annotated[int | None, Option(help="Port of the first broker that clients are told.")] = None,
    brokers: Annotated[int | None, Option(min=1, help="Number of brokers, each with its own listener; else 1.")] = None,
    node_ids: Annotated[
        str | None, Option(metavar="ID,ID,…", help="The brokers' ids, in the order of their ports; else 1, 2, …")
    ] = None,
    topic: Annotated[
        list[str] | None,
        Option(help="Topic to create: NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS; can be given more than once."),
    ] = None,
    partitions: Annotated[int | None, Option(min=1, help="Partitions of new topics (num.partitions).")] = None,
    set_: Annotated[
        list[str] | None,
        Option(name="--set", metavar="KEY=VALUE", help="Broker configuration; can be given more than once."),
    ] = None,
    strict_replication: Annotated[
        bool, Option(help="Refuse a replication factor above the number of brokers.")
    ] = False,
    log_level: Annotated[str, Option(help="debug, info, warning or error.")] = "info",
    json: Annotated[bool, Option(help="Log as JSON lines.")] = False,
    as_kafka: Annotated[
        str | None,
        Option(
            metavar="RELEASE",
            help="Be this release of Kafka: 2.8, 3.3, 3.6, 3.9, 4.0 or 4.4. "
            "Without it 4.4, with the versions of older clients beside.",
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        Option(metavar="NAME|DIR", help="Speak this dialect: one of `odradek dialects`, or the folder of your own."),
    ] = None,
    transaction_version: Annotated[
        int | None,
        Option(
            min=0,
            max=2,
            help="Finalized level of the feature transaction.version at the start; the highest that the release has.",
        ),
    ] = None,
    events: Annotated[Path | None, Option(help="Append every event to this file, as JSON lines.")] = None,
    metrics_port: Annotated[
        int | None, Option(help="Serve /metrics for Prometheus on this port; 0 picks a free one.")
    ] = None,
    security: Annotated[
        str | None,
        Option(
            metavar="WORD",
            help="How clients get in: plaintext, ssl, sasl-plaintext or sasl-ssl; prints the settings that they need.",
        ),
    ] = None,
    certs_folder: Annotated[
        Path | None, Option(name="--certs", metavar="FOLDER", help="Certificates of `odradek certs` for --security.")
    ] = None,
    user: Annotated[
        list[str] | None,
        Option(
            metavar="NAME:PASSWORD", help="A user for --security; can be given more than once. Else one is made up."
        ),
    ] = None,
    faults: Annotated[
        Path | None,
        Option(
            help="Apply the rules of this plan (YAML or JSON). "
            "If one has not seen what it expects by the end, the exit code is 3."
        ),
    ] = None,
    control: Annotated[
        str | None,
        Option(metavar="[HOST:]PORT", help="Let this cluster be driven over HTTP there; it is called default."),
    ] = None,
    control_token: Annotated[
        str | None, Option(help="What who drives it has to show; needed beyond loopback. Else $ODRADEK_HUB_TOKEN.")
    ] = None,
    story: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The same with a plan that comes along, and the cluster that it is made for; `odradek stories` "
            "lists them.",
        ),
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of every random choice.")] = None,
    cluster_id: Annotated[str | None, Option(help="Cluster id; a random one if not given.")] = None,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints `odradek ready bootstrap=HOST:PORT` when clients can connect.
    """
    from odradek.config.table import Config, ConfigError
    from odradek.logs import LEVELS, make_logger
    from odradek.net.serve import ServeOptions, alone
    from odradek.net.serve import serve as serve_until_stopped

    if log_level not in LEVELS:
        raise UsageError(f"Unknown log level {log_level}: it is one of {', '.join(LEVELS)}.")
    overrides = _overrides(set_ or [])
    plan = _plan(faults, story)
    if plan is not None:
        overrides = plan.cluster.overrides | overrides
        brokers = plan.cluster.brokers if brokers is None and node_ids is None else brokers
        topic = [*plan.cluster.topics, *(topic or [])]
        as_kafka = as_kafka or plan.cluster.as_kafka
        transaction_version = plan.cluster.transaction_version if transaction_version is None else transaction_version
    host = host or os.environ.get(HOST_VARIABLE) or "127.0.0.1"
    ids = _node_ids(brokers, node_ids)
    port = _port(port, count=len(ids))
    prepared = None if security is None else _prepared(security, host, port, advertised_host, certs_folder, user or [])
    if prepared is not None:
        overrides = prepared.config | overrides
    elif user or certs_folder is not None:
        raise UsageError("--user and --certs go with --security.")
    if partitions is not None:
        overrides["num.partitions"] = str(partitions)
    if strict_replication:
        overrides["odradek.strict.replication"] = "true"
    if as_kafka is not None:
        overrides["odradek.as.kafka"] = as_kafka
    if transaction_version is not None:
        overrides.setdefault("odradek.transaction.version", str(transaction_version))
    try:
        config = Config.parse(overrides, None if dialect is None else _dialect(dialect))
    except ConfigError as error:
        raise UsageError(str(error)) from error
    log = make_logger(level=log_level, as_json=json)
    if config.without_effect:
        log.warning("configuration_without_effect", keys=config.without_effect)
    options = ServeOptions(
        config=config,
        node_ids=ids,
        host=host,
        port=port,
        advertised_host=advertised_host,
        advertised_port=None if advertised_port is None else _port(advertised_port, count=len(ids)),
        topics=tuple(_topic(text) for text in topic or []),
        seed=seed,
        cluster_id=cluster_id,
        events=events,
        metrics_port=metrics_port,
        arm=None if plan is None else partial(_arm, plan.rules),
    )
    hosting = alone if control is None else _hosting(control, control_token, log, prepared)
    if until_stdin_ends:
        end_with_stdin()
    try:
        unmet = serve_until_stopped(options, log=log, ready=partial(_print_ready, prepared=prepared), hosting=hosting)
    finally:
        if prepared is not None:
            prepared.close()
    if unmet:
        raise Unmet(" ".join(unmet))


def certs(
    folder: Annotated[Path, Argument(help="The folder, which is made if it is not there.")],
    host: Annotated[
        list[str] | None,
        Option(
            help="A name or address that brokers are reached by, beside the local ones; can be given more than once."
        ),
    ] = None,
    client: Annotated[
        list[str] | None, Option(metavar="NAME", help="A client; can be given more than once. Else: client.")
    ] = None,
    days: Annotated[int, Option(min=1, help="For how long the certificates are valid.")] = 3650,
) -> None:
    """Make a throw-away certificate authority, a certificate for brokers and some for clients.

    As PEM (ca.pem, server.pem, NAME.pem), and as PKCS12 stores for Java with the password in password.txt.
    """
    from odradek.extras import need

    need("cryptography", extra="certs")
    from odradek.net.certs import make_certificates

    try:
        made = make_certificates(folder, hosts=host or (), clients=client or ["client"], days=days)
    except OSError as error:
        raise UsageError(str(error) if error.errno is None else f"{folder}: {error.strerror}.") from None
    print(f"{made.ca}: what both sides trust\n{made.server}: key and certificate of brokers")
    for name in client or ["client"]:
        print(f"{made.client(name)}: key and certificate of the client {name}")


def dialects() -> None:
    """List the dialects: the KIPs, and other texts, that differ from Kafka and that a broker can be."""
    from odradek.dialects.show import listed

    print("\n".join(listed()))


def show_dialect(
    name: Annotated[str, Argument(help="Name of a dialect, or its folder.")],
) -> None:
    """Show what a dialect changes, beside what it is over."""
    from odradek.dialects.show import shown

    print("\n".join(shown(name)))


def stories(
    name: Annotated[str | None, Argument(help="Print the plan of this one; else list all.")] = None,
) -> None:
    """List the situations that `odradek serve --story NAME` arranges, or print the plan of one."""
    from odradek.extras import need

    need("yaml", extra="control")
    from odradek.control.stories import names, read_story, text_of

    if name is None:
        width = max(map(len, names()))
        for each in names():
            print(f"{each:{width}}  {read_story(each).about}")
        return
    try:
        print(text_of(name), end="")
    except LookupError as error:
        raise UsageError(str(error)) from None


def codec_check(
    files: Annotated[list[str], Argument(help="Vector files, JSON lines, possibly gzipped; - is standard input.")],
) -> None:
    """Decode and encode every vector of the files, and compare fields and bytes; exit code 1 on any failure."""
    from odradek.tools.codec_check import main as check

    raise SystemExit(check(files))


def health(
    bootstrap: Annotated[str, Option(help="HOST:PORT of the brokers to ask, separated by commas.")] = "localhost:9092",
    wait: Annotated[float, Option(min=0, help="Ask again for so many seconds until all answer.")] = 0,
    timeout: Annotated[float, Option(min=0.1, help="Seconds that a broker has for its answer.")] = 5,
) -> None:
    """Ask every broker of --bootstrap for its ApiVersions; exit code 0 if all answer, 1 if not."""
    from odradek.tools.health import check_health

    complaints = check_health(bootstrap, wait_s=wait, timeout_s=timeout)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    raise SystemExit(1 if complaints else 0)


def completion(shell: Annotated[str, Argument(help="bash, zsh or fish.")]) -> None:
    """Print what the shell reads to complete these commands: source <(odradek completion bash)."""
    from odradek.completion import script

    print(script(shell, _commands(None).options()), end="")


def _print_ready(cluster: RunningCluster, prepared: Prepared | None) -> None:
    print(f"{READY}{cluster.bootstrap}", flush=True)
    if prepared is not None:
        from odradek.net.client_settings import settings_page  # few starts want to be told

        print(f"\n{settings_page(prepared.access(cluster.bootstrap))}", flush=True)


def _prepared(
    security: str, host: str, port: int, advertised_host: str | None, folder: Path | None, users: list[str]
) -> Prepared:
    from odradek.net.prepared import Prepared  # few starts want it
    from odradek.security.jaas import JaasError, parse_users

    hosts = [] if advertised_host is None else [advertised_host]
    try:
        named = parse_users(",".join(users))
    except JaasError as error:
        raise UsageError(str(error)) from None
    return Prepared(security, host=host, port=port, hosts=hosts, folder=folder, users=named)


def _dialect(name: str) -> Release:
    from odradek.dialects.load import load  # a broker of Kafka needs none of it

    return load(name)


def _hosting(control: str, token: str | None, log: Logger, prepared: Prepared | None) -> Hosting:
    from odradek.control.cli import hosting_of

    return hosting_of(control, token, None, log, prepared)


def _port(port: int, *, count: int) -> int:
    if not 0 <= port <= 65535 or port + count - 1 > 65535:
        raise UsageError(f"Port {port} is out of range for {count} broker(s): ports end at 65535.")
    return port


def _node_ids(brokers: int | None, text: str | None) -> tuple[int, ...]:
    from odradek.node.cluster_spec import node_ids_of, read_node_ids

    try:
        return node_ids_of(brokers, None if text is None else read_node_ids(text))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _overrides(settings: list[str]) -> dict[str, str]:
    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set takes KEY=VALUE, not {setting}.")
        overrides[key.strip()] = value
    return overrides


def _plan(path: Path | None, story: str | None) -> Plan | None:
    """The plan of --faults or --story, if there is one."""
    if path is None and story is None:
        return None
    from odradek.extras import need

    need("yaml", extra="control")
    from odradek.control.plan import PlanError, load_plan
    from odradek.control.stories import read_story

    if path is not None and story is not None:
        raise UsageError("A start has --faults or --story, not both.")
    try:
        return load_plan(path) if path is not None else read_story(story or "")
    except (LookupError, PlanError) as error:
        raise UsageError(str(error)) from None


def _arm(rules: list[Rule], cluster: RunningCluster) -> None:
    from odradek.control.steps import add_rules
    from odradek.node.rules.model import RuleError

    try:
        add_rules(cluster, rules)
    except RuleError as error:
        raise UsageError(f"{error.field}: {error}") from None


def _topic(text: str) -> StartTopic:
    from odradek.node.hosting.controller import StartTopic

    try:
        return StartTopic.parse(text)
    except ValueError:
        raise UsageError(f"--topic takes NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, not {text}.") from None


def _add_demo(commands: Commands) -> None:
    from odradek.demo.cli import add_commands

    add_commands(commands)


def _add_control(commands: Commands) -> None:
    from odradek.control.cli import add_commands

    add_commands(commands)


def _add_sim(commands: Commands) -> None:
    from odradek.sim.command import add_commands

    add_commands(commands)


def _add_pipeline(commands: Commands) -> None:
    try:
        from odradek_pipeline.cli import add_commands
    except ModuleNotFoundError:  # a checkout whose import path holds the broker alone
        return
    add_commands(commands)


FAMILIES: dict[tuple[str, ...], Callable[[Commands], None]] = {
    ("demo",): _add_demo,
    ("hub", "ctl"): _add_control,
    ("sim",): _add_sim,
    ("scan", "audit", "watch", "copy", "report"): _add_pipeline,
}
"""The first words of the commands that others bring, and what adds them."""


def _commands(first: str | None) -> Commands:
    """The broker's own commands and those of the family that is named: nobody waits for what he does not use.

    All of them, if it is none of these: for the help, and for what is close to a word that is wrong.
    """
    commands = Commands("odradek", ABOUT, GROUPS)
    for name, command in BROKER.items():
        commands.add(name, command)
    named = [add for words, add in FAMILIES.items() if first in words]
    for add in named if named or first in BROKER else FAMILIES.values():
        add(commands)
    return commands


BROKER: dict[str, Callable[..., None]] = {
    "serve": serve,
    "certs": certs,
    "dialects": dialects,
    "dialects show": show_dialect,
    "health": health,
    "stories": stories,
    "codec-check": codec_check,
    "completion": completion,
}


PIPE_CLOSED = 128 + 13
"""The exit code of what SIGPIPE ends."""


def main() -> None:
    """Run the command; what cannot be done ends in one sentence and exit code 2."""
    words = sys.argv[1:]
    if words == ["--version"]:
        print(f"odradek {__version__}")
        return
    try:
        _commands(words[0] if words else None).run(words)
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter would say so once more as it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(PIPE_CLOSED)
    except UsageError as error:
        print(f"odradek: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, Unmet) else 2)


if __name__ == "__main__":
    main()
