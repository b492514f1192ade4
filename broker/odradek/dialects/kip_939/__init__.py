"""The dialect kip-939; its README goes through the text."""
