"""The files of Kafka's log directories, as pure functions over bytes: what is in each, and how it is named."""
