"""Who gets in and what they may do: listeners, principals, logins. No sockets, no clock, no dice."""
