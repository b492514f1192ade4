"""The APIs for the cluster: topics, configs, features, the quorum."""
