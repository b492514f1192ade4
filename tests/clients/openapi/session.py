"""A session with a hub by a client that was generated from its OpenAPI document; `session.py URL` prints what it saw.

Nothing is written by hand between this and HTTP: names, types and paths are those that the document gives.
"""

import json
import sys
from typing import Any

from hub_client import Client
from hub_client.api.brokers import list_brokers, pause_broker, resume_broker, start_broker, stop_broker
from hub_client.api.clusters import list_clusters, make_cluster, overview, remove_cluster, show_cluster
from hub_client.api.config import alter_configs
from hub_client.api.events import list_events
from hub_client.api.parked import list_parked
from hub_client.api.partitions import move_leader, show_partition
from hub_client.api.rules import add_rules, list_rules, release_rule, remove_rule, show_rule
from hub_client.api.time import change_time, show_time
from hub_client.api.transactions import list_transactions
from hub_client.api.verify import verify
from hub_client.api.wait import wait
from hub_client.models import (
    Act,
    AlterConfigs,
    AlterConfigsConfigs,
    Expect,
    ForEvent,
    ForRule,
    ForTransaction,
    Match,
    MatchFrom,
    MoveLeader,
    NewCluster,
    NewTopic,
    Plan,
    Problem,
    Rule,
    Step,
    StepMoveLeaderType1,
    StopBody,
    TimeBody,
    WaitBody,
    When,
    WhenTimesType1,
)

MINUTE_MS = 60_000


def play(client: Client) -> dict[str, Any]:
    seen: dict[str, Any] = {"odradek": overview.sync(client=client).odradek}

    made = make_cluster.sync(
        client=client, body=NewCluster(brokers=3, topics=["orders", NewTopic(name="copies", partitions=2)])
    )
    cluster = made.id
    seen["brokers"] = [(each.id, each.state, each.fenced) for each in made.brokers]
    seen["listed"] = [each.id for each in list_clusters.sync(client=client)] == [cluster]

    late = Rule(
        name="late", match=Match(api="END_TXN", from_=MatchFrom.CLIENT), act=Act(hold=True), expect=Expect(hits=1)
    )
    again = Rule(
        name="again",
        match=Match(api=["PRODUCE", "FETCH"], topic="orders"),
        when=When(after="late", times=WhenTimesType1.ALL),
        then=[Step(move_leader=StepMoveLeaderType1.NEXT)],
    )
    seen["armed"] = [each.name for each in add_rules.sync(cluster, client=client, body=Plan(rules=[late, again]))]
    seen["one"] = show_rule.sync(cluster, "late", client=client).rule.act.hold
    seen["unmet"] = verify.sync(cluster, client=client).unmet
    seen["released"] = release_rule.sync(cluster, "late", client=client).released

    wrong = add_rules.sync(cluster, client=client, body=Rule(match=Match(api="END_TXM"), act=Act(drop=True)))
    assert isinstance(wrong, Problem)
    seen["wrong"] = (wrong.status, wrong.field, wrong.detail)
    in_vain = wait.sync(cluster, client=client, body=WaitBody(rule=ForRule(name="late"), timeout_ms=0))
    assert isinstance(in_vain, Problem)
    seen["in vain"] = in_vain.status
    came = wait.sync(
        cluster,
        client=client,
        body=WaitBody(event=ForEvent(kind="leadership_taken"), transaction=ForTransaction(id="till-1", state="none")),
    )
    seen["came"] = len(came.found)

    change_time.sync(cluster, client=client, body=TimeBody(freeze=True))
    pause_broker.sync(cluster, "2", client=client)
    seen["time"] = change_time.sync(cluster, client=client, body=TimeBody(advance_ms=MINUTE_MS)).frozen
    seen["fenced"] = [each.id for each in list_brokers.sync(cluster, client=client) if each.fenced]
    resume_broker.sync(cluster, "2", client=client)
    stopped = stop_broker.sync(cluster, "3", client=client, body=StopBody(cleanly=True))
    seen["states"] = [
        each.state for answer in (stopped, start_broker.sync(cluster, "3", client=client)) for each in answer
    ]
    seen["ahead"] = show_time.sync(cluster, client=client).ahead_ms > MINUTE_MS // 2

    move_leader.sync(cluster, "orders", "0", client=client, body=MoveLeader(to=3))
    seen["leader"] = show_partition.sync(cluster, "orders", "0", client=client).leader
    configs = AlterConfigsConfigs.from_dict({"retention.ms": "1000"})
    seen["altered"] = alter_configs.sync_detailed(
        cluster, client=client, body=AlterConfigs(topic="orders", configs=configs)
    ).status_code
    page = list_events.sync(cluster, client=client, kind="broker_fenced")
    seen["events"] = [each.fields.to_dict() for each in page.events]
    seen["nothing"] = [list_parked.sync(cluster, client=client), list_transactions.sync(cluster, client=client)]

    seen["shown"] = show_cluster.sync(cluster, client=client).bootstrap == made.bootstrap
    remove_rule.sync_detailed(cluster, "late", client=client)
    seen["left"] = [each.name for each in list_rules.sync(cluster, client=client)]
    seen["removed"] = remove_cluster.sync_detailed(cluster, client=client).status_code
    gone = show_cluster.sync(cluster, client=client)
    assert isinstance(gone, Problem)
    seen["gone"] = gone.detail
    return seen


if __name__ == "__main__":
    with Client(base_url=sys.argv[1], raise_on_unexpected_status=True) as hub:
        print(json.dumps(play(hub)))
