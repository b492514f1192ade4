"""Calls that add, show and release rules."""

from __future__ import annotations

from odradek.control import steps
from odradek.control.endpoints.asked import Asked
from odradek.control.hub import Hosted
from odradek.control.messages.clusters import RuleSummary
from odradek.control.messages.deeds import ReleaseBody, Released, Verdict
from odradek.control.plan import plan_of, rule_of
from odradek.faults.armed import RuleReport

__all__ = ["add_rules", "clear_rules", "list_rules", "release_rule", "remove_rule", "show_rule", "verify"]


def _reports(hosted: Hosted) -> list[RuleReport]:
    return hosted.running.rules.reports() if hosted.running.has_rules else []


def _summary(report: RuleReport) -> RuleSummary:
    return RuleSummary(name=report.name, matched=report.matched, hits=report.hits, held=report.held, unmet=report.unmet)


async def list_rules(asked: Asked) -> list[RuleReport]:
    """Every rule with its hits."""
    return _reports(asked.hosted)


async def add_rules(asked: Asked) -> list[RuleReport]:
    """Apply a rule, a list of rules or a plan (an object with `rules`): all of it or none."""
    hosted = asked.hosted
    known = [report.name for report in _reports(hosted)]
    body = asked.body
    alone = isinstance(body, dict) and "rules" not in body
    rules = [rule_of(body, known=known)] if alone else plan_of(body, known=known).rules
    return [armed.report() for armed in steps.add_rules(hosted.running, rules)]


async def show_rule(asked: Asked) -> RuleReport:
    """A rule with its hits."""
    return asked.hosted.running.rules.get(asked.path["rule"]).report()


async def remove_rule(asked: Asked) -> RuleReport:
    """Remove a rule: the requests that it holds are served; the answer has its hits."""
    armed = asked.hosted.running.rules.get(asked.path["rule"])
    asked.hosted.controls.remove_rule(armed)
    return armed.report()


async def clear_rules(asked: Asked) -> None:
    """Remove every rule with its expectations."""
    asked.hosted.controls.clear_rules()


async def release_rule(asked: Asked) -> Released:
    """Serve the requests that a rule holds, all or so many."""
    armed = asked.hosted.running.rules.get(asked.path["rule"])
    body: ReleaseBody = asked.body
    return Released(released=asked.hosted.controls.release(armed, body.count))


async def verify(asked: Asked) -> Verdict:
    """Which expectations are not met."""
    hosted = asked.hosted
    return Verdict(unmet=hosted.running.rules.verify() if hosted.running.has_rules else [])
