"""Buildah, from Debian's packages: images are built and run as root in chroots, with a storage that is thrown away.

Python's standard library is enough for this module, so that a bare machine can run it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Buildah", "CannotRun", "base_archive", "installed", "thrown_away"]

PROGRAMS = ("buildah", "debootstrap")  # each in the package of its name
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # Ubuntu has Debian's keys in a package, too
SUITE = "bookworm"  # Debian 12 has Python 3.11
BASE_PACKAGES = "python3,python3-pip,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_CONFIGURATION = Path("/etc/pip.conf")


class CannotRun(Exception):
    """This machine is not one where it could run; the text is one sentence."""


def installed() -> None:
    """See to the packages and the rights; `CannotRun` where that is impossible."""
    if os.geteuid() != 0:
        raise CannotRun("Only root can build and run an image this way: try it with sudo.")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [] if KEYRING.exists() else [KEYRING.stem]
    if missing:
        if shutil.which("apt-get") is None:
            raise CannotRun(f"There is no {' and no '.join(missing)} here, and no apt-get to install it with.")
        print(f"Installing {' and '.join(missing)} ...", flush=True)
        install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing)
        done = _tried(*install)
        if done.returncode:  # perhaps nobody has asked yet what there is
            _tried("apt-get", "update", "-qq")
            done = _tried(*install)
        if done.returncode:
            raise CannotRun(f"apt-get does not install {' and '.join(missing)}: {_last(done.stderr)}.")
    able = _tried("unshare", "--mount", "--net", "true")
    if able.returncode:
        raise CannotRun(f"Root may not make namespaces here: {_last(able.stderr)}.")


def base_archive(folder: Path, mirror: str) -> Path:
    """What stands in for python:3.11-slim, as a tar archive: a small Debian 12, made once."""
    archive = folder / f"{SUITE}.tar"
    if archive.exists():
        return archive
    print(f"Making a base image of {mirror} {SUITE}: a few minutes, the first time ...", flush=True)
    with thrown_away(folder) as work:
        tree, part = work / "tree", work / archive.name
        making = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, str(tree), mirror]
        done = subprocess.run(apart(*making), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise CannotRun(f"debootstrap makes no base image of {mirror}: {_last(done.stdout)}.")
        for mark in tree.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            mark.unlink()  # in the image that it stands for, pip may install what it likes
        (tree / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for packages in tree.glob("var/cache/apt/archives/*.deb"):
            packages.unlink()
        subprocess.run(["tar", "--directory", str(tree), "--create", "--file", str(part), "."], check=True)
        part.rename(archive)
    return archive


class Buildah:
    """One storage and what lies in it."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage

    def command(self, name: str, *arguments: object) -> list[str]:
        """A call of the program with this storage."""
        places = {"--root": self._storage / "root", "--runroot": self._storage / "run", "--storage-driver": "vfs"}
        words = [str(word) for place in places.items() for word in place]
        return ["buildah", *words, name, *map(str, arguments)]

    def said(self, name: str, *arguments: object) -> str:
        """What a call printed; `AssertionError` with all of its complaints if it failed."""
        (self._storage / "tmp").mkdir(exist_ok=True)
        done = subprocess.run(
            apart(*self.command(name, *arguments)),
            env={**os.environ, "TMPDIR": str(self._storage / "tmp")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"buildah {name} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    def import_base(self, archive: Path, name: str) -> None:
        """From now on the archive is the image of this name."""
        container = self.said("from", "scratch")
        self.said("add", "--quiet", container, archive, "/")
        self.said("commit", "--quiet", "--rm", container, name)

    def build(self, dockerfile: Path, context: Path, name: str) -> dict[str, Any]:
        """Build an image; its configuration. The network is that of the machine, and so are its ways to the index."""
        ours = [path for path in (CERTIFICATES, PIP_CONFIGURATION) if path.exists()]
        volumes = [word for path in ours for word in ("--volume", f"{path}:{path}:ro")]
        how = ["--isolation", "chroot", "--network", "host", "--pull-never", "--format", "docker"]
        self.said("bud", *how, *volumes, "--file", dockerfile, "--tag", name, context)
        configuration: dict[str, Any] = json.loads(self.said("inspect", "--type", "image", name))["Docker"]["config"]
        return configuration

    def container(self, name: str) -> str:
        """A container of an image."""
        return self.said("from", "--pull-never", name)

    def run(self, container: str, *words: str) -> list[str]:
        """The command line that runs a program in a container, as the user of its image, where the caller is."""
        return self.command("run", "--isolation", "chroot", "--network", "host", container, "--", *words)


def apart(*command: str) -> list[str]:
    """The command with mounts of its own, so that none outlives it."""
    return ["unshare", "--mount", *command]


@contextmanager
def thrown_away(folder: Path) -> Iterator[Path]:
    """A folder for the time being; what is mounted in it, though nothing should be, is left alone."""
    work = Path(tempfile.mkdtemp(dir=folder, prefix="work-"))
    try:
        yield work
    finally:
        subprocess.run(["rm", "--recursive", "--force", "--one-file-system", str(work)], check=True)


def _tried(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True
    )


def _last(said: str) -> str:
    """The last line, without its full stop."""
    return ([*filter(None, map(str.strip, said.splitlines()))] or ["without a word"])[-1].rstrip(".")
