"""Who gets in and what they may do: listeners, principals, logins, permissions, and what each endpoint needs."""
