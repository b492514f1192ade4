"""Permissions, credentials and delegation tokens, as clients ask about them."""
