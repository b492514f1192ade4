"""Share groups (KIP-932): members share partitions, which the group assigns.

- `group`: the state of a group, as a fold over its records (`records`).
- `assignor`: how many members share each partition.
- `heartbeat`: ShareGroupHeartbeat; `states`: the share partitions that the share coordinator knows.
- `groups`: the decisions about requests.

The group does not deal with records: the leader of a partition delivers them (`odradek.share`).
"""
