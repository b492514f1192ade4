"""Report cards for client libraries: which sentences of the KIPs does a client keep? The command `odradek conform`."""
