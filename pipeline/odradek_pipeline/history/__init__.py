"""Client histories, and the anomalies of Jepsen's Kafka checker."""
