"""What this broker hosts: replicas, coordinators, the controller."""
