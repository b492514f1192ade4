"""The bodies and answers of the hub: JSON on the wire, and schemas of the OpenAPI document."""
