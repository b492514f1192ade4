"""The simulated cluster and what happens in it: brokers over one virtual clock and network, and clients as scripts."""
