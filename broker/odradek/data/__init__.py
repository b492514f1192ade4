"""Records of partitions: Produce, Fetch and its sessions, and questions about logs."""
