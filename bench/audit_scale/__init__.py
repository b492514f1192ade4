"""How the time of `odradek audit logs` grows with the bytes, and with the executors of a Spark cluster."""
