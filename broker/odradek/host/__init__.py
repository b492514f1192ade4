"""What carries any subject: the registry of endpoints, and the parts of a broker that they may touch."""
