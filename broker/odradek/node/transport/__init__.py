"""From frames to calls and back."""
