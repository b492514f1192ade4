"""Commands about rules."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import Unmet, UsageError
from odradek.control.ctl.tables import RULE_COLUMNS, Shown

__all__ = ["arm", "disarm", "plan", "release", "verify"]


def plan() -> None:
    """Print a plan of rules to begin with, for `ctl arm`."""
    print(files("odradek.control.ctl").joinpath("plan.yaml").read_text(encoding="utf-8"), end="")


def arm(
    at: Shown,
    plan: Annotated[Path, Argument(help="A plan in YAML or JSON; - is standard input.")],
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
    at.show(at.post("rules", body=data), RULE_COLUMNS)


def disarm(at: Shown, rule: Annotated[str, Argument(help="Its name.")]) -> None:
    """Remove a rule, and serve the requests that it holds."""
    at.show(at.delete("rules", rule), RULE_COLUMNS)


def release(
    at: Shown,
    rule: Annotated[str, Argument(help="Its name.")],
    count: Annotated[int | None, Option(min=1, help="So many, the longest held first; else all.")] = None,
) -> None:
    """Serve the requests that a rule holds."""
    body = {} if count is None else {"count": count}
    at.show(at.post("rules", rule, "release", body=body), ("released",))


def verify(at: Shown) -> None:
    """Print the rules with unmet expectations; exit code 3 if there are any."""
    verdict = at.post("verify")
    if at.as_json:
        at.show(verdict, ())
    if verdict["unmet"]:
        raise Unmet(" ".join(verdict["unmet"]))
