"""Groups of the consumer protocol (KIP-848): the coordinator assigns the partitions, and members follow one by one.

- `member`, `group`: what the log says of a group, as a fold over its records (`records`).
- `assignors`: who shall have what; `reconcile`: the next step of one member from what it has to what it shall have.
- `subscriptions`: the topics of a group and its patterns.
- `progress`: how the group moves on when a member has changed; `heartbeat`: ConsumerGroupHeartbeat.
- `classic_members`: the classic APIs, of members that do not know the protocol yet; `migration`: how a group of one
  protocol becomes one of the other.
- `groups`: what each request leads to; `folding`, one floor up, is how the log becomes groups.
"""
