"""The simulated driver: the nodes of a cluster over a virtual clock and network, reproducible from a seed."""

from odradek.sim.world.client import Answer, SimClient
from odradek.sim.world.world import World

__all__ = ["Answer", "SimClient", "World"]
