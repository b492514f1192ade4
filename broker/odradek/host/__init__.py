"""What carries any subject: endpoints, connections and peers, replicas and replication, shards of coordinators."""
