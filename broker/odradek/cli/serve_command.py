"""`odradek serve`: its options, and the cluster that they describe.

Annotations are values here and no texts: reading the options of a command line would evaluate them, in 3 ms.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from odradek.cli import offered
from odradek.cli.imports import NoCollections
from odradek.cli.options import Option, Path
from odradek.cli.parent import UntilStdinEnds
from odradek.cli.usage import HOST_VARIABLE, Unmet, UsageError
from odradek.core.wording import counted

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.control.plan import Plan
    from odradek.faults.model import Rule
    from odradek.metadata.controller_role import StartTopic
    from odradek.net.cluster import RunningCluster
    from odradek.net.prepared import Prepared
    from odradek.net.recording import Record
    from odradek.net.serve import Hosting
    from odradek.releases.release import Release

__all__ = ["serve"]

CLUSTER_ID = r"(?a)[\w.-]+"
CLUSTER_ID_MAX = 255
"""The longest cluster id in bytes: it is in every Metadata response, which could not be written with a longer one."""

AS_KAFKA = "odradek.as.kafka"


def serve(
    host: Annotated[
        str | None, Option(help="Address to listen on; without it $ODRADEK_HOST, or else 127.0.0.1.")
    ] = None,
    port: Annotated[int, Option(help="Port of the first broker; 0 picks a free one for each.")] = 9092,
    advertised_host: Annotated[
        str | None, Option(help="Host that clients are told, if it is not the one listened on.")
    ] = None,
    advertised_port: Annotated[
        int | None, Option(min=1, help="Port of the first broker that clients are told.")
    ] = None,
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
    log_level: Annotated[str, Option(names=offered.log_levels, help="debug, info, warning or error.")] = "info",
    json: Annotated[bool, Option(help="Log as JSON lines.")] = False,
    as_kafka: Annotated[
        str | None,
        Option(
            metavar="RELEASE",
            names=offered.releases,
            help="Be this release of Kafka: 2.8, 3.3, 3.6, 3.9, 4.0, 4.3 or 4.4. "
            "Without it 4.4, with the versions of older clients beside.",
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        Option(
            metavar="NAME|DIR",
            names=offered.dialects,
            help="Speak this dialect: one of `odradek dialects`, or the folder of your own.",
        ),
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
    event_bodies: Annotated[
        bool, Option(help="Write into it what requests and responses say, but for large ones and secrets.")
    ] = False,
    metrics_port: Annotated[
        int | None, Option(min=0, max=65535, help="Serve /metrics for Prometheus on this port; 0 picks a free one.")
    ] = None,
    security: Annotated[
        str | None,
        Option(
            metavar="WORD",
            names=offered.securities,
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
        Option(
            metavar="[HOST:]PORT",
            help="Let this cluster be driven over HTTP there; it is called default. Browsers show it at that address.",
        ),
    ] = None,
    control_token: Annotated[
        str | None, Option(help="Token for clients of the hub; needed beyond loopback. Else $ODRADEK_HUB_TOKEN.")
    ] = None,
    story: Annotated[
        str | None,
        Option(
            metavar="NAME",
            names=offered.stories,
            help="The same with a plan that comes along, and the cluster that it is made for; `odradek stories` "
            "lists them.",
        ),
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of every random choice.")] = None,
    cluster_id: Annotated[str | None, Option(help="Cluster id; a random one if not given.")] = None,
    data_dir: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Keep the logs there, as files of Kafka 4.4, and go on with what is there.",
        ),
    ] = None,
    sync: Annotated[
        bool,
        Option(help="Have everything on the device before it is acknowledged, so that it outlives the machine."),
    ] = False,
    record: Annotated[
        Path | None,
        Option(metavar="FILE", help="Keep everything that comes in there, for `odradek replay`; a new file."),
    ] = None,
    record_max: Annotated[
        int | None, Option(min=1, metavar="BYTES", help="The recording ends before its file is longer.")
    ] = None,
    with_secrets: Annotated[
        bool, Option(help="Record a cluster with SASL, TLS or passwords: the file then holds them.")
    ] = False,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints `odradek ready bootstrap=HOST:PORT` when clients can connect; after it, with --control,
    `odradek hub ready url=URL`, and with --metrics-port `odradek metrics ready url=URL`.
    """
    with NoCollections():
        from odradek.cli.logs import LEVELS, make_logger
        from odradek.config.table import Config
        from odradek.host.cluster_spec import racks_of
        from odradek.net.ready import print_ready
        from odradek.net.serve import ServeOptions, alone
        from odradek.net.serve import serve as serve_until_stopped

    if event_bodies and events is None:
        raise UsageError("--event-bodies goes with --events.")
    if sync and data_dir is None:
        raise UsageError("--sync goes with --data-dir.")
    if record is None and (record_max is not None or with_secrets):
        raise UsageError("--record-max and --with-secrets go with --record.")
    if log_level not in LEVELS:
        raise UsageError(f"Unknown log level {log_level}: it is one of {', '.join(LEVELS)}.")
    overrides = _overrides(set_ or [])
    as_kafka = _release(as_kafka, overrides)
    plan = _plan(faults, story)
    plans_release = None
    if plan is not None:
        overrides = plan.cluster.overrides | overrides
        brokers = plan.cluster.brokers if brokers is None and node_ids is None else brokers
        topic = [*plan.cluster.topics, *(topic or [])]
        plans_release = plan.cluster.as_kafka
        transaction_version = plan.cluster.transaction_version if transaction_version is None else transaction_version
    _check_told(advertised_host, cluster_id)
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
    as_kafka = as_kafka or plans_release
    if as_kafka is not None:
        overrides[AS_KAFKA] = as_kafka
    if transaction_version is not None:
        overrides.setdefault("odradek.transaction.version", str(transaction_version))
    try:
        config = Config.parse(overrides, None if dialect is None else _dialect(dialect))
        racks_of(config.broker_rack, ids)
    except ValueError as error:  # a ConfigError is a ValueError
        raise UsageError(str(error)) from error
    log = make_logger(level=log_level, as_json=json)
    if config.without_effect:
        log.warning("configuration_without_effect", keys=config.without_effect)
    options = ServeOptions(
        config=config,
        node_ids=None if data_dir is not None and brokers is None and node_ids is None else ids,
        host=host,
        port=port,
        advertised_host=advertised_host,
        advertised_port=None if advertised_port is None else _port(advertised_port, count=len(ids)),
        topics=tuple(_topic(text) for text in topic or []),
        seed=seed,
        cluster_id=cluster_id,
        data_dir=data_dir,
        sync=sync,
        record=None if record is None else _record(record, record_max, with_secrets),
        events=events,
        event_bodies=event_bodies,
        metrics_port=metrics_port,
        arm=None if plan is None else partial(_arm, plan.rules),
    )
    hosting, tell_hub = (alone, None) if control is None else _hosting(control, control_token, log, prepared)
    ready = partial(print_ready, tell_hub=tell_hub, prepared=prepared, until_stdin_ends=until_stdin_ends)
    try:
        unmet = serve_until_stopped(options, log=log, ready=ready, hosting=hosting)
    finally:
        if prepared is not None:
            prepared.close()
    if unmet:
        raise Unmet(" ".join(unmet))


def _record(path: Path, bytes_max: int | None, with_secrets: bool) -> "Record":
    from odradek.net.recording import Record  # few starts are recorded

    return Record(path=path, bytes_max=bytes_max, with_secrets=with_secrets)


def _release(as_kafka: str | None, overrides: dict[str, str]) -> str | None:
    """The release that the command line names, as an option or as a key."""
    configured = overrides.get(AS_KAFKA)
    if as_kafka is not None and configured not in (None, as_kafka):
        raise UsageError(f"--as-kafka says {as_kafka} and --set {AS_KAFKA}={configured}: give one of them.")
    return as_kafka or configured


def _prepared(
    security: str, host: str, port: int, advertised_host: str | None, folder: Path | None, users: list[str]
) -> "Prepared":
    from odradek.access.jaas import JaasError, parse_users
    from odradek.net.prepared import Prepared  # few starts want it

    hosts = [] if advertised_host is None else [advertised_host]
    try:
        named = parse_users(",".join(users))
    except JaasError as error:
        raise UsageError(str(error)) from None
    return Prepared(security, host=host, port=port, hosts=hosts, folder=folder, users=named)


def _dialect(name: str) -> "Release":
    from odradek.releases.dialects.load import load  # a broker of Kafka needs none of it

    return load(name)


def _hosting(
    control: str, token: str | None, log: "Logger", prepared: "Prepared | None"
) -> "tuple[Hosting, Callable[[], None]]":
    from odradek.control.cli import hosting_of

    return hosting_of(control, token, None, log, prepared)


def _check_told(advertised_host: str | None, cluster_id: str | None) -> None:
    """Check values that clients receive unchanged, for texts that clients could not use."""
    if advertised_host is not None:
        from odradek.config.addresses import check_told_host  # few starts say one

        try:
            check_told_host(advertised_host)
        except ValueError as error:
            raise UsageError(f"--advertised-host: {error}") from None
    if cluster_id is not None and len(cluster_id) > CLUSTER_ID_MAX:
        raise UsageError(
            f"A cluster id has {CLUSTER_ID_MAX} characters at most (Kafka's have 22), not {len(cluster_id)}."
        )
    if cluster_id is not None and not re.fullmatch(CLUSTER_ID, cluster_id):
        raise UsageError(f"A cluster id is of letters, digits and ._- (Kafka's have 22 of them), not {cluster_id!r}.")


def _port(port: int, *, count: int) -> int:
    if not 0 <= port <= 65535 or port + count - 1 > 65535:
        raise UsageError(f"Port {port} is out of range for {counted(count, 'broker')}: ports end at 65535.")
    return port


def _node_ids(brokers: int | None, text: str | None) -> tuple[int, ...]:
    from odradek.host.cluster_spec import node_ids_of, read_node_ids

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


def _plan(path: Path | None, story: str | None) -> "Plan | None":
    """The plan of --faults or --story, if one is given."""
    if path is None and story is None:
        return None
    from odradek.cli.extras import need

    need("yaml", extra="control")
    from odradek.control.plan import PlanError, load_plan
    from odradek.control.stories import read_story

    if path is not None and story is not None:
        raise UsageError("A start has --faults or --story, not both.")
    try:
        return load_plan(path) if path is not None else read_story(story or "")
    except (LookupError, PlanError) as error:
        raise UsageError(str(error)) from None


def _arm(rules: "list[Rule]", cluster: "RunningCluster") -> None:
    from odradek.control.steps import add_rules
    from odradek.faults.model import RuleError

    try:
        add_rules(cluster, rules)
    except RuleError as error:
        raise UsageError(f"{error.field}: {error}") from None


def _topic(text: str) -> "StartTopic":
    from odradek.metadata.controller_role import StartTopic

    try:
        return StartTopic.parse(text)
    except ValueError:
        raise UsageError(f"--topic takes NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, not {text}.") from None
