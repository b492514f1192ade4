"""The workflows of CI and of a release: read by actionlint, and their commands exist."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from tests.packaging.tools import ROOT, declared, go_tool, said

pytestmark = [pytest.mark.slow, pytest.mark.builds]

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
RELEASE = WORKFLOW.with_name("release.yml")
ACTION = ROOT / ".github" / "actions" / "toolchains" / "action.yml"


@pytest.mark.parametrize("workflow", [WORKFLOW, RELEASE], ids=lambda path: path.name)
def test_actionlint_has_nothing_to_say(workflow: Path) -> None:
    done = said(go_tool("actionlint"), "-no-color", workflow, cwd=ROOT)
    assert (0, "") == (done.returncode, done.stdout), done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("runs-on: ubuntu-latest", "runs-on: ubuntu-newest", 'label "ubuntu-newest" is unknown'),
        ("github.event_name == 'push'", "github.event_nam == 'push'", 'property "event_nam" is not defined'),
        ('cron: "0 3 * * 1"', 'cron: "0 3 * *"', "invalid CRON format"),
        ("- run: .ci/run", "- runs: .ci/run", 'must run script with "run" section'),
    ],
)
def test_it_would_say_so(tmp_path: Path, right: str, wrong: str, complaint: str) -> None:
    text = WORKFLOW.read_text()
    assert right in text
    broken = tmp_path / "ci.yml"
    broken.write_text(text.replace(right, wrong, 1))
    done = said(go_tool("actionlint"), "-no-color", broken, cwd=ROOT)
    assert 1 == done.returncode
    assert complaint in done.stdout


def test_there_is_no_other_workflow() -> None:
    assert {WORKFLOW, RELEASE} == set(WORKFLOW.parent.iterdir())


def test_only_a_tag_publishes() -> None:
    """Whatever writes to a registry, signs or makes a release is left out of a dry run."""
    workflow = declared("yaml", RELEASE)
    assert {"push", "pull_request", "workflow_dispatch"} == set(workflow["on"])
    assert {"tags": ["v*"]} == workflow["on"]["push"]
    assert {"contents": "read"} == workflow["permissions"]
    tagged = "github.ref_type == 'tag'"
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            words = str(step)
            if any(each in words for each in ("attest-build", "login-action", "gh release")):
                assert tagged in (step.get("if"), job.get("if")), (name, step)
    [built] = [step for step in workflow["jobs"]["image"]["steps"] if "build-push" in step.get("uses", "")]
    assert f"${{{{ {tagged} }}}}" == built["with"]["push"]
    assert "linux/amd64,linux/arm64" == built["with"]["platforms"]
    assert {"packages", "image"} == set(workflow["jobs"]["publish"]["needs"])


def test_everything_that_is_published_is_signed_first() -> None:
    jobs = declared("yaml", RELEASE)["jobs"]
    image, publish = (
        [step.get("uses") or step.get("run", "") for step in jobs[name]["steps"]] for name in ("image", "publish")
    )
    assert image[-1].startswith("actions/attest-build-provenance@")
    assert publish[-2].startswith("actions/attest-build-provenance@")
    assert publish[-1].startswith("gh release create ")


def test_what_it_runs_is_there() -> None:
    jobs = declared("yaml", WORKFLOW)["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {
        ".ci/run",
        "make test",
        "make test-nightly",
        'make sim-nightly ARGS="--seed $((GITHUB_RUN_NUMBER * 2000))"',
        "make sim-mutants",
        "sudo make image-test",
        "docker build -f docker/Dockerfile -t odradek .",
        "make test ARGS=tests/helpers/test_containers.py",
        "make matrix-full",
        "make kafka-tests ARGS=--all",
    } == set(commands)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    for target in ("test-nightly", "sim-nightly", "sim-mutants", "image-test", "matrix-full", "kafka-tests"):
        assert re.search(rf"^(\S+ )*{target}\b.*:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_each_job_runs_on_some_events_and_each_event_runs_a_job() -> None:
    workflow = declared("yaml", WORKFLOW)
    conditions = " ".join(job["if"] for job in workflow["jobs"].values())
    assert set(workflow["on"]) == set(re.findall(r"'(\w+)'", conditions))


def test_every_python_that_the_package_names_is_played() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {word.rpartition(" :: ")[2] for word in project["classifiers"] if "Python :: 3" in word}
    played = {declared("yaml", ACTION)["inputs"]["python"]["default"]}
    for job in declared("yaml", WORKFLOW)["jobs"].values():
        played |= set(job.get("strategy", {}).get("matrix", {}).get("python", []))
    assert named == played


def test_the_toolchains_are_those_that_the_tests_ask_for() -> None:
    steps = declared("yaml", ACTION)["runs"]["steps"]
    versions = {
        name.removesuffix("-version"): value
        for step in steps
        for name, value in step.get("with", {}).items()
        if name.endswith("-version")
    }
    assert {"python": "${{ inputs.python }}", "java": "17", "go": "1.26", "node": "22"} == versions
    assert any("rustup" in step.get("run", "") for step in steps)
