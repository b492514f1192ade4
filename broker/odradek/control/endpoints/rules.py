"""Rules are added, told of, and released."""

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
    """Every rule, and what it has seen."""
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
    """A rule, and what it has seen."""
    return asked.hosted.running.rules.get(asked.path["rule"]).report()


async def remove_rule(asked: Asked) -> RuleReport:
    """Apply a rule no longer; what it holds is served, and what it has seen is answered."""
    rules = asked.hosted.running.rules
    armed = rules.get(asked.path["rule"])
    rules.remove(armed)
    return armed.report()


async def clear_rules(asked: Asked) -> None:
    """Remove every rule, and forget what any of them expects."""
    asked.hosted.running.rules.clear()


async def release_rule(asked: Asked) -> Released:
    """Serve the requests that a rule holds, all or so many."""
    rules = asked.hosted.running.rules
    body: ReleaseBody = asked.body
    return Released(released=rules.release(rules.get(asked.path["rule"]), body.count))


async def verify(asked: Asked) -> Verdict:
    """Which expectations are not met."""
    hosted = asked.hosted
    return Verdict(unmet=hosted.running.rules.verify() if hosted.running.has_rules else [])
