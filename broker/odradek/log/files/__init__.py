"""The files in Kafka's log directories, as pure functions over bytes: their content, and their names."""
