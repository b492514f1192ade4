"""Control over requests, for tests: hold, delay, drop or answer any request by API, client and count."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from odradek.node.transport.router import Call, CloseConnection, Handler
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.node.node import Node

__all__ = ["Fault", "Faults"]


class Fault(Struct, eq=False):
    """What happens to the requests that match.

    `skip` requests pass first, then `times` of them are hit (None: all).
    `delay_ms` serves them later; `hold` serves them when `Faults.release` is called;
    `reply` answers in place of the broker; `drop` never answers; `disconnect` closes the connection;
    `drop_reply` serves the request but closes the connection in place of the answer;
    `reply_delay_ms` serves it now, and answers later.
    A request that is delayed or held is served even if its client goes away meanwhile: it is on its way, not lost.
    """

    api_key: ApiKey
    client_id: str | None = None
    matches: Callable[[Call], bool] | None = None
    skip: int = 0
    times: int | None = 1
    delay_ms: int = 0
    hold: bool = False
    drop: bool = False
    drop_reply: bool = False
    reply_delay_ms: int = 0
    disconnect: bool = False
    reply: Callable[[Call], Any] | None = None
    hits: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.api_key, ApiKey):
            raise TypeError(f"A fault is about an ApiKey, such as ApiKey.PRODUCE, not about {self.api_key!r}.")
        for name in ("skip", "times", "delay_ms", "reply_delay_ms"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise ValueError(f"{name} of a fault is 0 or more, not {number}.")

    @property
    def postpones(self) -> bool:
        """Whether a request that is hit is served later."""
        return self.hold or self.delay_ms > 0

    def takes(self, call: Call) -> bool:
        """Whether this request is hit; counts it."""
        if call.api_key != self.api_key or (self.client_id is not None and call.client_id != self.client_id):
            return False
        if self.matches is not None and not self.matches(call):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None:
            if self.times <= 0:
                return False
            self.times -= 1
        self.hits += 1
        return True


class Faults:
    """The faults of one node, in the order in which they were added; the first that matches wins."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._faults: list[Fault] = []
        self._taken: Fault | None = None

    def add(self, fault: Fault) -> Fault:
        """From now on, this happens."""
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """No longer; whoever it holds is served."""
        if fault in self._faults:
            self._faults.remove(fault)
        self.release(fault)

    def release(self, fault: Fault) -> None:
        """Serve the requests that the fault holds."""
        self._node.purgatory.wake(("fault", id(fault)))

    def of(self, node: Node) -> Faults:
        """The same faults for another node, with the counts that they have."""
        faults = Faults(node)
        faults._faults = self._faults
        return faults

    def intercepts(self, call: Call) -> bool:
        """Whether a fault takes this request; `serve` must follow if so."""
        self._taken = next((fault for fault in self._faults if fault.takes(call)), None)
        return self._taken is not None

    @property
    def postpones(self) -> bool:
        """Whether the request that `intercepts` has just taken is served later."""
        return self._taken is not None and self._taken.postpones

    async def serve(self, handler: Handler, call: Call) -> Any:
        """Serve the request that `intercepts` has just taken, as its fault demands."""
        fault, self._taken = self._taken, None
        assert fault is not None
        node = self._node
        if fault.disconnect:
            raise CloseConnection("fault_injected")
        if fault.delay_ms:
            await node.sleep(fault.delay_ms)
        if fault.hold:
            await node.purgatory.park([("fault", id(fault))], deadline=None)
        if fault.drop:
            await node.kernel.wait()
        if fault.reply is not None:
            return fault.reply(call)
        response = await handler.serve(node, call)
        if fault.drop_reply:
            raise CloseConnection("fault_injected")
        if fault.reply_delay_ms:
            await node.sleep(fault.reply_delay_ms)
        return response
