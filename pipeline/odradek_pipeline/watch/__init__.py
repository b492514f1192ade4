"""`odradek watch`: the audit of a running cluster, through its brokers' own answers."""
