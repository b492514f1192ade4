"""Shared by all subjects: endpoints, connections and peers, replicas and replication, shards of coordinators."""
