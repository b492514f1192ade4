"""The bodies and answers of the hub: what is sent as JSON, and what the OpenAPI document is made of."""
