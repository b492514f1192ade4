"""The consequences of a broker's stop or start for its cluster: controller, fencing, unfencing.

For brokers on real sockets and simulated ones alike: a driver ends or starts the node, and calls this with a function
that acts on the controller role of a running node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.metadata.controller_role import ControllerRole

__all__ = ["Act", "choose_controller", "hear_from", "let_in", "see_off", "succeed"]

Act: TypeAlias = "Callable[[int, Callable[[ControllerRole], None]], None]"
"""Runs a function on the metadata role of a running node, in a step of its own."""


def see_off(spec: ClusterSpec, node_id: int, running: Collection[int], act: Act, *, cleanly: bool = False) -> None:
    """A node has stopped, and these still run: one of them is the controller, and fences the stopped one."""
    spec.cleanly = spec.cleanly | {node_id} if cleanly else spec.cleanly - {node_id}
    if not running:
        return
    succeed(spec, running, act)
    act(spec.controller_id, lambda controller: controller.fence(node_id))


def succeed(spec: ClusterSpec, running: Collection[int], act: Act) -> None:
    """If the controller does not run, the running node with the lowest id becomes the controller."""
    if spec.controller_id not in running:
        spec.controller_id = min(running)
        act(spec.controller_id, lambda controller: controller.activate())


def hear_from(spec: ClusterSpec, node_ids: Collection[int], act: Act) -> None:
    """These nodes answer again: those that were fenced for their silence are unfenced."""
    for node_id in node_ids:
        act(spec.controller_id, lambda controller, node_id=node_id: controller.hear_from(node_id))  # type: ignore[misc]


def choose_controller(spec: ClusterSpec, node_id: int, running: Collection[int]) -> None:
    """A node is about to start beside these: if there are none, it will be the controller."""
    if not running:
        spec.controller_id = node_id


def let_in(spec: ClusterSpec, node_id: int, running: Collection[int], act: Act) -> None:
    """A node has started, and these run, including it: it is unfenced, and every node that does not run is fenced.

    The last node that stopped could not be fenced; a broker's new incarnation takes over no leadership of its old one.
    A crash that is not noticed yet (`spec.unheard`) stays so.
    """
    gone = [broker.node_id for broker in spec.brokers if broker.node_id not in {*running, *spec.unheard}]
    cleanly = node_id in spec.cleanly
    spec.cleanly -= {node_id}

    def register(controller: ControllerRole) -> None:
        for each in (*gone, node_id):
            controller.fence(each)
        controller.admit(spec.broker(node_id), shut_down_cleanly=cleanly)

    act(spec.controller_id, register)
