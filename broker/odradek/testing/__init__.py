"""For tests: a cluster in this process, and pytest fixtures (`kafka_cluster`, `kafka_bootstrap`)."""

from odradek.node.controlling import StartTopic
from odradek.node.faults import Fault
from odradek.testing.cluster import Cluster
from odradek.wire.registry import ApiKey

__all__ = ["ApiKey", "Cluster", "Fault", "StartTopic"]
