"""The dialect kip-890-text; its README discusses the text."""
