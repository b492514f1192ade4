"""A record that is late, as somebody would write it down."""

from __future__ import annotations

from odradek.control.plan import read_plan
from odradek.sim.schedules.schedule import Deed, Player, Schedule, Send, Txn

__all__ = ["PLAN", "late_record"]

PLAN = """
rules:
- match: {api: PRODUCE}
  act: {delay_ms: 200}
"""


def late_record() -> Schedule:
    """One producer gives up, and what it has sent comes when its transaction is over."""
    gives_up = Txn(sends=(Send(partition=0, patience_ms=50, gives_up=True),))
    return Schedule(
        seed=1,
        levels=(0,),
        verification=False,
        brokers=1,
        replicas=1,
        duration_ms=500,
        players=(Player(name="p0", transactional_id="a", transactions=(gives_up,)),),
        deeds=(Deed(at_ms=0, kind="rule", rule=read_plan(PLAN).rules[0], lasts_ms=500),),
    )
