"""How the pipeline gets into a cluster: Kafka's client properties, for our own connections, librdkafka and Spark."""
