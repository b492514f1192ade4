"""Share groups (KIP-932): members share partitions, and the group decides who reads from which.

- `group`: what the log says of a group, as a fold over its records (`records`).
- `assignor`: how many members share each partition.
- `heartbeat`: ShareGroupHeartbeat; `state`: which share partitions the share coordinator knows of.
- `groups`: what each request leads to.

Which records a member gets is none of a group's business: that is decided where a partition is led (`odradek.share`).
"""
