"""The promises of transactions, a model of them and a reader: written from the KIPs, not from the broker."""
