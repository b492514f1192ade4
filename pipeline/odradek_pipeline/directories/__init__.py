"""Log directories as a whole: which cluster, which replica, where logs should begin and end, and what that proves."""
