"""Where `make image-test` cannot run, it says so in one sentence, and it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.packaging import buildah, image_for_real


def as_root(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(buildah, "KEYRING", path)


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    assert image_for_real.CANNOT_RUN == image_for_real.main(["build", "http://nowhere.invalid/debian"])
    return capsys.readouterr().err


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "make image-test: Only root can build and run an image this way: try it with sudo.\n" == told(capsys)


def test_without_debians_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    as_root(monkeypatch, tmp_path)
    program(tmp_path, "debootstrap", "")
    assert "make image-test: There is no buildah here, and no apt-get to install it with.\n" == told(capsys)


def test_with_an_apt_that_does_not_have_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    as_root(monkeypatch, tmp_path)
    program(tmp_path, "apt-get", 'echo "$1" >> "$0.log"; echo "E: Unable to locate package buildah" >&2; exit 100')
    assert told(capsys).endswith(
        "apt-get does not install buildah and debootstrap: E: Unable to locate package buildah.\n"
    )
    assert ["install", "update", "install"] == (tmp_path / "apt-get.log").read_text().split()


def test_without_the_right_to_namespaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    as_root(monkeypatch, tmp_path)
    for name in buildah.PROGRAMS:
        program(tmp_path, name, "")
    program(tmp_path, "unshare", 'echo "unshare: unshare failed: Operation not permitted" >&2; exit 1')
    assert "Root may not make namespaces here: unshare: unshare failed: Operation not permitted.\n" in told(capsys)


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with buildah.thrown_away(tmp_path) as work:
            (work / "layer").mkdir()
            subprocess.run(["false"], check=True)

    with pytest.raises(subprocess.CalledProcessError):
        fail()
    assert [] == list(tmp_path.iterdir())
