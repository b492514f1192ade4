"""Programs that judge a directory: Kafka's DumpLogSegments with all its decoders, its metadata shell, our audit.

Each judge returns its complaints; a directory is in order if there are none.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.clients.toolchain import JAVA, java_classes, python_with, resolved
from tests.oracle.real_kafka import POM, class_path, pom_property

from odradek.log.files.names import read_folder
from odradek.log.metadata_log import METADATA_FOLDER

__all__ = ["DECODERS", "audit", "dump", "metadata_shell", "rooms"]

ROOT = Path(__file__).parents[2]
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
SAYS_WRONG = ("Mismatch", "mismatch", "isvalid: false", "Could not", "Found", "out of", "Exception", "Failed")
AUDITS_WITH = (
    "numpy",
    "pandas",
    "pyarrow",
    "python-dateutil",
    "pytz",
    "tzdata",
    "six",
    "rich",
    "markdown-it-py",
    "mdurl",
)
INDEXES = (".index", ".timeindex")
ROOM_BYTES = (10_485_760, 10_485_756)
"""`segment.index.bytes`, in whole entries of 8 and of 12 bytes."""
SHELL_POM = Path(__file__).with_name("kafka-shell") / "pom.xml"


class Decoder(NamedTuple):
    """One way to call DumpLogSegments."""

    options: Sequence[str]
    is_for: Callable[[Path], bool]
    names: str
    """A word that it prints where it has decoded something."""


def _log_of(prefix: str) -> Callable[[Path], bool]:
    return lambda path: path.suffix == ".log" and path.parent.name.startswith(prefix)


def _has_room(path: Path) -> bool:
    """Whether it is an index with the room that a running Kafka has reserved, and that a clean stop cuts off."""
    return path.suffix in INDEXES and path.stat().st_size in ROOM_BYTES


def _keeps_room(path: Path) -> bool:
    """Whether it is an index whose room Kafka 4.4 leaves even then: those of the metadata log's newest segment.

    `LogManager.shutdown` has indexes cut (`UnifiedLog.prepareActiveSegmentForClose`), but the metadata log is none of
    its logs, and `UnifiedLog.close`, by which `KafkaRaftLog.close` ends it, does not cut. At a start Kafka makes these
    indexes anew. A Kafka that was alone with its directory leaves them so, too.
    """
    newest = max(each.stem for each in path.parent.glob("*.log"))
    return path.parent.name == METADATA_FOLDER and path.stem == newest and _has_room(path)


DECODERS: Mapping[str, Decoder] = {
    "batches": Decoder(["--deep-iteration"], lambda _: True, "baseOffset: "),
    "indexes": Decoder(
        ["--index-sanity-check"],
        lambda path: path.suffix in INDEXES and not _keeps_room(path),
        "passed",
    ),
    "metadata": Decoder(
        ["--cluster-metadata-decoder"],
        lambda path: path.parent.name == METADATA_FOLDER and path.suffix in (".log", ".checkpoint"),
        "REGISTER_BROKER_RECORD",
    ),
    "transactions": Decoder(["--transaction-log-decoder"], _log_of("__transaction_state"), '"transactionStatus"'),
    "offsets": Decoder(["--offsets-decoder"], _log_of("__consumer_offsets"), '"group"'),
    "share state": Decoder(["--share-group-state-decoder"], _log_of("__share_group_state"), '"groupId"'),
}


def _is_leaving(folder: Path) -> bool:
    """Whether it is of a deleted topic, whose files nobody ends any more."""
    found = read_folder(folder.name)
    return found is not None and found.state == "delete"


def rooms(directory: Path) -> set[str]:
    """The folders of logs whose indexes have reserved room."""
    return {path.parent.name for path in directory.glob("*/*") if _has_room(path) and not _is_leaving(path.parent)}


def _calls(directory: Path, only: Collection[str]) -> Iterator[tuple[str, Decoder, list[Path]]]:
    """Those of these names that there are files for."""
    files = sorted(path for path in directory.glob("*/*") if path.suffix in SUFFIXES and not _is_leaving(path.parent))
    for name in only:
        decoder = DECODERS[name]
        found = [path for path in files if decoder.is_for(path)]
        if found:
            yield name, decoder, found


def dump(directory: Path, *, only: Collection[str] = tuple(DECODERS), judged: set[str] | None = None) -> list[str]:
    """Complaints of DumpLogSegments about any file; `judged` gets the names of decoders that have decoded.

    `only` are the names of decoders that are asked.

    One virtual machine calls it for all of them.
    """
    calls = list(_calls(directory, only))
    told = _judge(" ".join([*each.options, "--files", ",".join(map(str, of))]) for _, each, of in calls)
    complaints = [] if told.returncode == 0 else [told.stderr[-2000:]]
    for (name, decoder, _), text in zip(calls, told.stdout.split("\f\n")[1:], strict=False):
        complaints += [f"{name}: {line}" for line in text.splitlines() if any(word in line for word in SAYS_WRONG)]
        if judged is not None and decoder.names in text:
            judged.add(name)
    return complaints


def _judge(calls: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """What DumpLogSegments says to each call; they go in by a pipe, for Linux takes no argument of 128 KiB."""
    libraries = resolved(POM, {"kafka.version": pom_property("kafka.tools.version")})
    path = java_classes("judges", [Path(__file__).with_name("Judge.java")], libraries)
    lines = "".join(f"{call}\n" for call in calls)
    return subprocess.run([*JAVA, "-cp", path, "Judge"], input=lines, capture_output=True, text=True, check=False)


def metadata_shell(file: Path, *commands: str) -> str:
    """What Kafka's metadata shell prints of a snapshot, or of a segment of the metadata log."""
    shell = resolved(SHELL_POM, {})
    # Its release does not know the newest metadata.version, so that it runs on the jars of the broker.
    own = next(shell.glob("kafka-shell-*.jar"))
    path = os.pathsep.join([str(own), class_path(), f"{shell}/*"])
    command = [*JAVA, "-cp", path, "org.apache.kafka.shell.MetadataShell", "--snapshot", str(file), *commands]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def audit(directory: Path, out: Path) -> list[str]:
    """What `odradek audit logs` finds wrong in a directory; a half-written batch at the end of a log is not wrong."""
    done = subprocess.run(
        [
            *(_audits(), "-m", "odradek", "audit", "logs", str(directory)),
            *("--out", str(out), "--master", "none", "--check-crc"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "broker"), str(ROOT / "pipeline")])},
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode == 0 else [f"exit code {done.returncode}", done.stdout[-3000:], done.stderr[-2000:]]


def _audits() -> str:
    """A Python that has what the extra `audit` needs, but for its pictures."""
    pinned = {}
    for name in ("run", "pipeline"):
        for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
            package, _, _ = line.partition("==")
            pinned[package] = line
    running = [
        line
        for line in (ROOT / "requirements" / "run.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    wanted = [*(pinned[name] for name in AUDITS_WITH), pinned["Pygments"], *running]
    return python_with(f"pyarrow=={pinned['pyarrow'].partition('==')[2]}", *[w for w in wanted if "pyarrow" not in w])
