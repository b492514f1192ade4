"""Streams groups (KIP-1071): the coordinator knows the topology of an application and assigns its tasks.

- `tasks`, `member`, `group`: what there is; `records`: how the log has it.
- `topology`: what a member says of its application; `configured`: what that means for the topics that exist.
- `assignor`: who shall have which task; `reconcile`: the next step of one member towards that.
- `heartbeat`: StreamsGroupHeartbeat; `groups`: everything that is asked of streams groups.
"""
