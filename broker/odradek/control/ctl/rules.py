"""Commands about rules."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import Unmet, UsageError
from odradek.control.ctl.at import AsJson, At, Cluster, Url
from odradek.control.ctl.tables import RULE_COLUMNS, show_answer

__all__ = ["arm", "disarm", "plan", "release", "verify"]


def plan() -> None:
    """Print a plan of rules to begin with, for `ctl arm`."""
    print(files("odradek.control.ctl").joinpath("plan.yaml").read_text(encoding="utf-8"), end="")


def arm(
    plan: Annotated[Path, Argument(help="A plan in YAML or JSON; - is standard input.")],
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Apply the rules of a plan."""
    from odradek.cli.extras import need
    from odradek.control.plan import PlanError
    from odradek.control.yaml_text import read_yaml

    need("yaml", extra="control")

    def refuse(steps: Any, sentence: str, position: tuple[int, int]) -> PlanError:
        return PlanError(sentence, path="$", source=str(plan), line=position[0], column=position[1])

    try:
        text = sys.stdin.read() if str(plan) == "-" else plan.read_text(encoding="utf-8")
        data, _ = read_yaml(text, refuse)
    except OSError as error:
        raise UsageError(f"Cannot read {plan}: {error.strerror}.") from None
    except PlanError as error:
        raise UsageError(str(error)) from None
    show_answer(At(hub, cluster).post("rules", body=data), as_json, RULE_COLUMNS)


def disarm(
    rule: Annotated[str, Argument(help="Its name.")], hub: Url = None, cluster: Cluster = None, as_json: AsJson = False
) -> None:
    """Apply a rule no longer, and serve what it holds."""
    show_answer(At(hub, cluster).delete("rules", rule), as_json, RULE_COLUMNS)


def release(
    rule: Annotated[str, Argument(help="Its name.")],
    count: Annotated[int | None, Option(min=1, help="So many, the longest held first; else all.")] = None,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Serve the requests that a rule holds."""
    body = {} if count is None else {"count": count}
    show_answer(At(hub, cluster).post("rules", rule, "release", body=body), as_json, ("released",))


def verify(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Say which rules have not seen what they expect; exit code 3 if there are any."""
    verdict = At(hub, cluster).post("verify")
    if as_json:
        show_answer(verdict, as_json, ())
    if verdict["unmet"]:
        raise Unmet(" ".join(verdict["unmet"]))
