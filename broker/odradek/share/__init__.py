"""Sharing the records of a partition among the members of a share group (KIP-932).

- `state`: how far a group is with a partition, as the share coordinator keeps it; `coordinator`: the machine over one
  partition of `__share_group_state` that keeps it.
- `partition`: at the leader of a partition, which records are on their way to whom, and until when; `stretches` are
  the records that it counts together.
- `sessions`: which partitions a member reads from, from one ShareFetch to the next.

Groups and their members are in `odradek.group.share`; neither of the two knows of the other.
"""
