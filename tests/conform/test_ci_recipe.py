"""docs/conform-ci.md: its files are valid, and the commands in them are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from tests.conform.drivers.families import command

PAGE = Path(__file__).parents[2] / "docs" / "conform-ci.md"
ONE = "kip-98/transactions/commit-shows-all"
GITHUB, GITLAB = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S))
STEPS: list[dict[str, Any]] = GITHUB["jobs"]["conform"]["steps"]
SCRIPTS: dict[str, list[str]] = {
    "github": [step["run"] for step in STEPS if "run" in step],
    "gitlab": GITLAB["conform"]["script"],
}


def test_a_step_runs_something_or_uses_an_action_of_a_version() -> None:
    assert all(("run" in step) != ("uses" in step) for step in STEPS)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)


def test_both_choose_by_the_same_variable_and_keep_what_comes_out() -> None:
    assert GITHUB["jobs"]["conform"]["env"] == GITLAB["conform"]["variables"]
    assert {"ODRADEK", "CONFORM"} == set(GITLAB["conform"]["variables"])
    assert "--level 3" == GITLAB["conform"]["variables"]["CONFORM"]
    kept = next(step["with"]["path"] for step in STEPS if "upload-artifact" in step.get("uses", ""))
    assert ["conform.*", "conform-failures"] == kept.split()
    artifacts = GITLAB["conform"]["artifacts"]
    assert {"junit": "conform.xml"} == artifacts["reports"]
    assert ["conform.svg", "conform.md", "conform-failures"] == artifacts["paths"]


def test_both_install_odradek_first_and_judge_in_the_same_way() -> None:
    assert SCRIPTS["github"][0] == SCRIPTS["gitlab"][0] == 'pip install "odradek[control] @ $ODRADEK"'
    assert SCRIPTS["github"][1] == SCRIPTS["gitlab"][1]


@pytest.mark.client
@pytest.mark.slow
def test_the_commands_write_the_files(tmp_path: Path) -> None:
    """Those of GitHub: what GitLab runs is among them."""
    assert set(SCRIPTS["gitlab"]) <= set(SCRIPTS["github"])
    driver = command("confluent-kafka")
    (tmp_path / "driver.py").write_text(f"import os\nos.execvp({driver[0]!r}, {driver!r})\n")
    (tmp_path / "bin").mkdir()
    for name, module in (("odradek", ["-m", "odradek"]), ("python", [])):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *module])} "$@"\n')
        program.chmod(0o755)
    summary = tmp_path / "summary.md"
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "CONFORM": f"--only {ONE}", "GITHUB_STEP_SUMMARY": str(summary)}
    for line in SCRIPTS["github"][1:]:
        done = subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout + done.stderr
    [case] = ElementTree.parse(tmp_path / "conform.xml").iter("testcase")
    assert ONE in f"{case.get('classname')}/{case.get('name')}"
    assert not list(case)
    assert (tmp_path / "conform.svg").read_text().startswith("<svg")
    assert ONE in summary.read_text()
