"""What is looked at before an audit begins: that there is something to read, a place to write, and a Spark to start.

Whatever is wrong here is a wrong call: one sentence, and exit code 2. No audit says `ok` without having looked.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from odradek.cli.usage import UsageError
from odradek.net.client import split_address
from odradek_pipeline.audit.table_kind import TableKind
from odradek_pipeline.commands.needs import need
from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import LogFile, find_files

__all__ = [
    "check_address",
    "check_files",
    "check_folder",
    "check_log_directories",
    "check_master",
    "check_tables",
    "sentence",
    "spark_troubles",
]

JAVA_MIN = 17
_MASTER = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?|yarn|k8s://\S+|spark://[^\s,:]+:\d+(,[^\s,:]+:\d+)*")
_CONNECT_S = 5.0


def check_log_directories(directories: Iterable[Path], topics: Sequence[str] = ()) -> None:
    """Each of them is a log directory that can be read, and something wanted is in them."""
    found: list[LogFile] = []
    for directory in directories:
        found += _files_of(directory)
    if not found:
        raise UsageError("There is no partition in these directories.")
    names = {file.topic for file in found}
    for topic in topics:
        if topic not in names:
            raise UsageError(f"There is no topic {topic} in these directories.")


def _files_of(directory: Path) -> list[LogFile]:
    if files.is_stored(directory):
        return _stored_files_of(directory)
    _check_exists(directory)
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory: name Kafka's log.dirs, or directories of partitions.")
    _check_readable(directory)
    tree = find_files([directory])
    for problem in tree.problems:
        if problem.problem == "unreadable":
            raise UsageError(f"{problem.path} cannot be read: {problem.detail}.")
    for file in tree.files:
        _check_readable(file.path)
    for folder in sorted({str(directory), *(os.path.dirname(file.path) for file in tree.files)}):
        _check_entries(folder)
    if not tree.files and not (directory / "meta.properties").exists():
        raise UsageError(f"There is no partition in {directory}: name Kafka's log.dirs, or directories of partitions.")
    return tree.files


def _stored_files_of(directory: Path) -> list[LogFile]:
    tree = find_files([directory])
    place = files.place_of(str(directory))
    if not files.exists(directory):
        raise UsageError(f"There is no {place}.")
    if not tree.files and not files.exists(directory / "meta.properties"):
        raise UsageError(f"There is no partition in {place}: name Kafka's log.dirs, or directories of partitions.")
    return tree.files


def _check_entries(folder: str) -> None:
    """Nothing here waits for a writer, as a pipe does. What leads nowhere is told by the audit itself."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # symbolic links in a circle
                if entry.is_file() or entry.is_dir():
                    continue
            if entry.is_symlink():
                continue
            if os.path.lexists(entry.path):  # a living broker removes files meanwhile
                raise UsageError(f"{entry.path} is neither a file nor a directory.")


def check_files(named: Iterable[Path]) -> None:
    """Each of them is a file that can be read."""
    for file in named:
        _check_exists(file)
        if file.is_dir():
            raise UsageError(f"{file} is a directory: name files.")
        _check_readable(file)


def _check_exists(path: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError:
        raise UsageError(f"There is no {path}.") from None
    except ValueError:
        raise UsageError(f"{str(path)!r} is no path.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def _check_readable(path: str | Path) -> None:
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        raise UsageError(f"{path} cannot be read: Permission denied.")


def check_address(bootstrap: str) -> None:
    """Each is HOST:PORT; that somebody answers is another matter."""
    for address in bootstrap.split(","):
        try:
            host, port = split_address(address)
        except ValueError:
            host, port = "", -1
        if not host or not 0 < port < 1 << 16:
            raise UsageError(f"{address.strip() or 'Nothing'} is no address: it is HOST:PORT.")


def check_folder(out: Path) -> None:
    """Tables can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be a folder for tables: {error.strerror}.") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise UsageError(f"{out} cannot be written to: Permission denied.")


def check_tables(kind: str, out: str) -> TableKind:
    """The kind of tables of this name; one that there is not, or not there, is said in a sentence."""
    if kind not in {each.value for each in TableKind}:
        raise UsageError(f"There are no tables of the kind {kind}: they are {', '.join(TableKind)}.")
    found = TableKind(kind)
    if found is TableKind.ICEBERG:
        need("pyiceberg", "sqlalchemy", extra="iceberg")
        if files.is_far(out):
            raise UsageError("Iceberg's tables name their files by whole paths: --out has to be a folder here.")
    return found


# ---------------------------------------------------------------------- Spark


def check_master(master: str) -> None:
    """Spark understands the master and there is one; `submit` leaves all that to spark-submit."""
    if master == "submit":
        return
    if not _MASTER.fullmatch(master):
        raise UsageError(f"There is no master {master}: it is local[*], local[2], spark://HOST:PORT, yarn or k8s://….")
    _check_java()
    if master.startswith("spark://"):
        addresses = master.removeprefix("spark://").split(",")
        if not any(_answers(address) for address in addresses):
            raise UsageError(f"Nobody answers at {master}.")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S):
            return True
    except (OSError, OverflowError):
        return False


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    needed = f"Spark needs Java {JAVA_MIN} or newer"
    if java is None:
        raise UsageError(f"{needed}: there is none {f'in JAVA_HOME ({home})' if home else 'on the PATH'}.")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < JAVA_MIN:
        lines = said.strip().splitlines() or ["nothing"]
        raise UsageError(f"{needed}: {java} says {lines[0]}.")


@contextlib.contextmanager
def spark_troubles() -> Iterator[None]:
    """What Spark, its JVM or a client of Kafka throws at us becomes one sentence: the audit could not look."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise UsageError(f"Spark gave up: {sentence(error)}") from error
    except ConnectionError as error:
        raise UsageError(f"Spark's JVM has gone: {error}.") from error
    except Exception as error:
        # Only what has imported the client of Kafka gets its exceptions; an audit of logs is spared its 4 MB.
        client = sys.modules.get("confluent_kafka")
        if client is None or not isinstance(error, client.KafkaException):
            raise
        raise UsageError(f"Kafka refused: {error.args[0].str()}.") from error


_EXCEPTION = re.compile(r"(?:Caused by: )?(?:[a-z]\w*\.)+(\w+(?:Exception|Error)): (.+)")


def sentence(error: BaseException) -> str:
    """The innermost cause that a trace names, or its first line."""
    text = str(error).strip()
    causes = _EXCEPTION.findall(text)
    line = f"{causes[-1][0]}: {causes[-1][1]}" if causes else next(iter(text.splitlines()), type(error).__name__)
    return line.strip().rstrip(".") + "."
