"""What is built is built once, and whoever waits for it is told."""

from pathlib import Path

import pytest
from tests.clients.toolchain import once, telling


def test_a_build_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told: list[str] = []
    with telling(told.append):
        folders = {once("kettle", lambda folder: (folder / "lid").touch(), about_s=30) for _ in range(2)}
        once("cup", lambda folder: None, about_s=0)
    assert ["Building kettle, this once: about 30 s ..."] == told
    assert [["lid"]] == [[file.name for file in folder.iterdir()] for folder in folders]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError

    with telling(lambda text: None):
        with pytest.raises(OSError):
            once("kettle", fail, about_s=30)
        assert [] == list(once("kettle", lambda folder: None, about_s=30).iterdir())
