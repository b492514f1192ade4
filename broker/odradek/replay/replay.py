"""A recording as a cluster that has come to one of its inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek.config.table import Config, ConfigError
from odradek.core.wording import counted
from odradek.net.cluster import RunningCluster, listen_everywhere, start_cluster
from odradek.net.ports import Port
from odradek.net.recording_file import Head, Reader, difference_of_heads
from odradek.replay.ending import check_whole, why_it_ends
from odradek.replay.player import Differs, Player, steps_of
from odradek.replay.unpacked import Unpacked

if TYPE_CHECKING:
    from odradek.broker import EventSink, Logger
    from odradek.releases.release import Release

__all__ = ["Played", "Replay"]

PORT_MAX = 65_535


class _Silent(Port):
    """The address of a listener that is not opened."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address

    def hold(self) -> None:
        pass

    def listen(self) -> None:
        pass

    def give_up(self) -> None:
        pass

    def close(self) -> None:
        pass


class Played:
    """A cluster that has come so far, and what is to be said of it."""

    def __init__(
        self,
        cluster: RunningCluster,
        player: Player,
        difference: str | None,
        why: str | None,
        unpacked: Unpacked | None,
    ) -> None:
        self.cluster = cluster
        self.player = player
        self.difference = difference
        """The first answer that is another one; None where all are the same."""
        self.why = why
        """Why the recording ends where it does; None if the cluster ended there, or more of it is left."""
        self.unpacked = unpacked
        """The files that it began with, which stay as long as this."""

    @property
    def text(self) -> str:
        """The result, for a person."""
        player = self.player
        counts = f"{counted(player.answers, 'answer')} to {counted(player.connections, 'connection')}"
        behind = "" if self.why is None else f"\n{self.why}"
        if self.difference is not None:
            return f"{self.difference}\nBefore it {counts} were the same, of {counted(player.seq, 'input')}."
        return f"{counted(player.seq, 'input')}: {counts}, the same byte for byte.{behind}"


class Replay:
    """A file that is played. Raises `UsageError` where it is no recording."""

    def __init__(self, path: Path, *, dialect: str | None = None) -> None:
        self.path = path
        self._dialect = dialect
        self._player: Player | None = None
        self._unpacked: Unpacked | None = None
        """The files of the last cluster, which needs them as long as it runs."""
        with_head = Reader(path)
        with_head.close()
        self.head: Head = with_head.head

    @property
    def warnings(self) -> list[str]:
        """Sentences about what differs between the Odradek that has recorded it and this one."""
        return [
            f"It was recorded by another Odradek: {name} was {there} there and is {here} here."
            for name, (there, here) in difference_of_heads(self.head).items()
        ]

    @property
    def config(self) -> Config:
        """The configuration of the recorded brokers. Raises `UsageError`."""
        name = self._dialect or self.head.dialect
        try:
            return Config.parse(self.head.config, None if name is None else _dialect(name))
        except ConfigError as error:
            raise UsageError(f"{self.path} has a configuration that this Odradek does not take: {error}") from None

    def now_ms(self) -> int:
        """The brokers' time (ms)."""
        return self.head.began_ms if self._player is None else self._player.clock.now()

    async def play(self, log: Logger, *, until: int | None = None, events: EventSink | None = None) -> Played:
        """Play the inputs up to this number, or all there are.

        Raises `UsageError` for a number behind the last, and for a file that is damaged on the way.
        """
        reader, head = Reader(self.path), self.head
        ends: list[str] = []
        entries = iter(reader)
        player = self._player = Player(steps_of(entries, ends.append), began_ms=head.began_ms)
        difference, cluster, unpacked = None, None, None
        try:
            config = self.config
            if head.began is not None:
                unpacked = self._unpacked = Unpacked(
                    self.path, entries, head.began, config=config, node_ids=head.node_ids
                )
                player.shown_directory = head.began.directory
            cluster = await start_cluster(
                config=config,
                log=log,
                node_ids=head.node_ids,
                host=head.host,
                port=head.port,
                ports=_silent(head.ports),
                advertised_host=head.advertised_host,
                advertised_port=head.advertised_port,
                topics=head.topics,
                seed=head.seed,
                cluster_id=head.cluster_id,
                data_dir=None if unpacked is None else unpacked.data_dir,
                snapshot=None if unpacked is None else unpacked.snapshot,
                events=events,
                outside=player,
            )
            player.play(cluster, until)
        except Differs as differs:
            difference = differs.found.text
            if cluster is None:
                raise UsageError(f"{self.path}: {difference}") from None
        finally:
            reader.close()
        if difference is None:
            check_whole(reader, player.seq)
        if difference is None and until is not None and player.seq < until:
            raise UsageError(f"{self.path} has {counted(player.seq, 'input')}, and so none with the number {until}.")
        return Played(cluster, player, difference, _why(reader, ends, player, until), unpacked)

    async def go_live(self, played: Played, *, port: int | None = None) -> None:
        """Let clients of today connect: at the recorded addresses, or at ports from this one on, which they are told.

        Raises `UsageError` where an address cannot be bound, and where the recorded cluster has ended by then.
        """
        cluster = played.cluster
        if not cluster.nodes_running():
            raise UsageError(
                f"No broker runs behind input {played.player.seq:,} of {self.path}: name an earlier one with --until."
            )
        ports = self._ports(port)
        if cluster.encrypted:
            from odradek.net.listener_tls import ListenerTls  # most clusters have no such listeners

            for node_id, driver in cluster.drivers.items():
                shown = ListenerTls(cluster.encrypted, driver.node.config, cluster.log)
                driver.node.certificates = cluster.certificates[node_id] = shown
        cluster.ports = ports
        played.player.go_live(asyncio.get_running_loop())
        for node_id, opened in ports.items():
            if cluster.drivers[node_id].stopped:
                for each in opened.values():
                    with each.socket:
                        each.hold()
        await listen_everywhere(cluster)
        if port is not None:
            for node_id, opened in ports.items():
                for name, each in opened.items():
                    cluster.advertise(node_id, port=each.address[1], listener=name)

    def _ports(self, first: int | None) -> dict[int, dict[str, Port]]:
        opened: dict[int, dict[str, Port]] = {}
        try:
            for node_id, listeners in self.head.ports.items():
                opened[node_id] = {}
                for name, (host, recorded) in listeners.items():
                    count = sum(map(len, opened.values()))
                    number = recorded if first is None else first and first + count
                    if number > PORT_MAX:
                        raise UsageError(f"Port {number} is out of range: ports end at {PORT_MAX}.")
                    opened[node_id][name] = Port(host, number)
        except BaseException:
            for each in (port for listeners in opened.values() for port in listeners.values()):
                each.close()
            raise
        return opened


def _silent(ports: Mapping[int, Mapping[str, tuple[str, int]]]) -> dict[int, dict[str, Port]]:
    return {node: {name: _Silent(address) for name, address in listeners.items()} for node, listeners in ports.items()}


def _dialect(name: str) -> Release:
    from odradek.releases.dialects.load import load  # a broker of Kafka needs none of it

    return load(name)


def _why(reader: Reader, ends: list[str], player: Player, until: int | None) -> str | None:
    """Why there is no more to play; None where the cluster ended there, or there is more."""
    return None if until is not None else why_it_ends(reader, ends, player.seq)
