"""A client generated from the OpenAPI document drives a hub: what the document says can be worked with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import python_with

from odradek import __version__
from odradek.control.client import HubClient
from odradek.control.openapi import document

SESSION = Path(__file__).parents[1] / "clients" / "openapi" / "session.py"
GENERATOR = "openapi-python-client==0.29.1"
BESIDE = (
    "annotated-doc==0.0.7",
    "annotated-types==0.8.0",
    "anyio==4.16.0",
    "attrs==26.1.0",
    "certifi==2026.10.18",
    "h11==0.16.0",
    "httpcore==1.0.9",
    "httpx==0.28.1",
    "idna==3.20",
    "Jinja2==3.1.6",
    "markdown-it-py==4.3.0",
    "MarkupSafe==3.0.4",
    "mdurl==0.1.2",
    "pydantic==2.14.3",
    "pydantic_core==2.50.4",
    "Pygments==2.21.0",
    "rich==15.0.0",
    "ruamel.yaml==0.19.1",
    "ruff==0.17.6",
    "shellingham==1.5.4",
    "typer==0.27.3",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
)


def run(*arguments: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.builds
def test_a_generated_client_drives_a_hub(hub: HubClient, tmp_path: Path) -> None:
    with with_toolchains("openapi-python-client"):
        python = Path(python_with(GENERATOR, *BESIDE))
    (tmp_path / "openapi.json").write_text(json.dumps(document()))
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    said = run(
        *(python, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"),
        *("--path", "openapi.json", "--output-path", "hub_client", "--config", "config.yaml"),
        cwd=tmp_path,
    )
    assert "WARNING" not in said
    (tmp_path / "session.py").write_text(SESSION.read_text())

    seen = json.loads(run(python, "session.py", hub.url, cwd=tmp_path).splitlines()[-1])

    assert __version__ == seen["odradek"]
    assert [[broker, "running", False] for broker in (1, 2, 3)] == seen["brokers"]
    assert ["late", "again"] == seen["armed"]
    assert ["Rule late expects 1 hit and had 0 hits; no request matched."] == seen["unmet"]
    assert [400, "$.match.api", "There is no API END_TXM: did you mean END_TXN?"] == seen["wrong"]
    assert (408, 2) == (seen["in vain"], seen["came"])
    assert ([2], [{"broker": 2}, {"broker": 3}]) == (seen["fenced"], seen["events"])
    assert ["running", "running", "stopped", "running", "running", "running"] == seen["states"]
    assert (3, 204, 204) == (seen["leader"], seen["altered"], seen["removed"])
    assert [[], []] == seen["nothing"]
    assert ["again"] == seen["left"]
    assert "There is no cluster" in seen["gone"]
    assert (True, True, True, True, True) == tuple(seen[what] for what in ("listed", "one", "time", "ahead", "shown"))
    assert [] == hub.get("clusters")
