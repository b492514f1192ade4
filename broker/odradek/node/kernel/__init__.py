"""Scheduling: flows, what they wait for, and timers. Nothing of Kafka is in here."""
