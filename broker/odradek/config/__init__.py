"""The broker's settings: Kafka's names, types and defaults, and which of them have an effect."""
