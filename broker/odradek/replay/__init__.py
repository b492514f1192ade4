"""A recording, played: every answer again, byte for byte, or from any input of it on with clients of today."""
