"""The logs of groups and of share partitions."""
