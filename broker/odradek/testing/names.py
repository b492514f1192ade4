"""The public names of `odradek.testing`, each imported at its first use."""

from odradek.faults.armed import Armed
from odradek.faults.model import Rule, RuleError
from odradek.faults.one_line import rule
from odradek.metadata.controller_role import StartTopic
from odradek.testing.cluster import Cluster
from odradek.testing.damage import DataDirWarning
from odradek.testing.snapshot import Snapshot
from odradek.wire.registry import ApiKey

__all__ = ["ApiKey", "Armed", "Cluster", "DataDirWarning", "Rule", "RuleError", "Snapshot", "StartTopic", "rule"]
