"""The APIs for permissions, credentials and delegation tokens."""
