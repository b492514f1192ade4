"""For tests: a cluster in this process, and pytest fixtures (`kafka_cluster`, `kafka_bootstrap`)."""

from odradek.node.faults import Fault
from odradek.node.hosting.controller import StartTopic
from odradek.testing.cluster import Cluster
from odradek.wire.registry import ApiKey

__all__ = ["ApiKey", "Cluster", "Fault", "StartTopic"]
