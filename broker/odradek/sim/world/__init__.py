"""The simulated cluster: brokers over one virtual clock and network, and clients as scripts."""
