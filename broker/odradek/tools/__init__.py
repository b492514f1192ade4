"""Programs beside the broker, and generators of pages and modules."""
