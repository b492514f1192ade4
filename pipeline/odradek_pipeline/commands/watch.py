"""The command `odradek watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from odradek.cli.commands import Option
from odradek_pipeline.commands.needs import need

__all__ = ["CommandConfig", "watch"]

CommandConfig = Annotated[
    Path | None,
    Option(metavar="FILE", help="Client properties, as Kafka's tools take them: TLS, SASL."),
]


def watch(
    bootstrap: Annotated[str, Option(help="Address of the brokers: HOST:PORT, or several with commas.")],
    out: Annotated[Path, Option(help="Folder for incidents.jsonl, and for what a later watch goes on from.")] = Path(
        "watch"
    ),
    topic: Annotated[list[str] | None, Option(help="Only these topics; coordinators are always asked.")] = None,
    interval: Annotated[float, Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    stall: Annotated[float, Option(min=0, help="Seconds from which on a last stable offset that stays is told.")] = 10,
    once: Annotated[bool, Option(help="Look once and end.")] = False,
    seconds: Annotated[float | None, Option(min=0, help="End after so long; else by SIGINT or SIGTERM.")] = None,
    events: Annotated[
        Path | None, Option(help="What `odradek serve --events FILE` writes: verifications that fail are counted.")
    ] = None,
    metrics_host: Annotated[str, Option(help="Address that /metrics is served on.")] = "127.0.0.1",
    metrics_port: Annotated[
        int | None, Option(help="Serve /metrics for Prometheus on this port; 0 picks a free one.")
    ] = None,
    command_config: CommandConfig = None,
) -> None:
    """Watch a running cluster: transactions that hang, are stuck or too old; exit code 1 on anything bad."""
    need("msgspec", "pandas", "rich")
    from odradek_pipeline.access.config import read_config
    from odradek_pipeline.commands.preflight import check_address, check_files, check_folder
    from odradek_pipeline.watch.running import Settings, watch_cluster

    check_address(bootstrap)
    config = read_config(command_config)
    check_folder(out)
    if events is not None:
        check_files([events])
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    settings = Settings(bootstrap, out, frozenset(topic or ()), interval, stall, seconds, once, events, metrics, config)
    raise SystemExit(watch_cluster(settings))
