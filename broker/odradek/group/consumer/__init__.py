"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and members follow one by one.

- `member`, `group`: the state of a group, as a fold over its records (`records`).
- `assignors`: targets of members; `reconcile`: the next step of a member towards its target.
- `subscriptions`: the topics of a group and its patterns.
- `progress`: the group's next epoch after a change of a member; `heartbeat`: ConsumerGroupHeartbeat.
- `classic_members`: the classic APIs for members that do not speak the protocol yet; `migration`: conversion of a group
  between the protocols.
- `groups`: the decisions about requests; `group.folding` turns the log into groups.
"""
