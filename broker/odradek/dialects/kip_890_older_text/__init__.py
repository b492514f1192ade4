"""The dialect kip-890-older-text; its README goes through the text."""
