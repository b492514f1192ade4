"""Pictures of what happened, from the events of brokers (docs/events.md)."""
