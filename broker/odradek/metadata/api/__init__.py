"""The cluster as clients see and change it: topics, configs, features, the quorum."""
