"""What is public in `odradek.testing`, imported by the first who names one of these."""

from odradek.node.hosting.controller import StartTopic
from odradek.node.rules.armed import Armed
from odradek.node.rules.model import Rule, RuleError
from odradek.node.rules.one_line import rule
from odradek.testing.cluster import Cluster
from odradek.wire.registry import ApiKey

__all__ = ["ApiKey", "Armed", "Cluster", "Rule", "RuleError", "StartTopic", "rule"]
