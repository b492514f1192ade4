"""The simulated driver: the nodes of a cluster over a virtual clock and network, reproducible from a seed."""

from odradek.sim.client import Answer, SimClient
from odradek.sim.world import World

__all__ = ["Answer", "SimClient", "World"]
