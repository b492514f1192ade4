"""The dialect kip-890-text; its README goes through the text."""
