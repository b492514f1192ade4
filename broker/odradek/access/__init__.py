"""Authentication and authorization: listeners, principals, logins, permissions, and the needs of each endpoint."""
