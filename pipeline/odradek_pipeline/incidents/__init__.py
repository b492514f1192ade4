"""One incident for each cause of what was found, and which of them are new."""
