"""The dialect kip-939; its README discusses the text."""
