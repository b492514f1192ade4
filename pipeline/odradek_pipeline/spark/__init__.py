"""Spark: the session, the source `kafka_log`, and what audits hand to workers."""
