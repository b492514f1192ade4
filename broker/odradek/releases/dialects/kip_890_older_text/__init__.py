"""The dialect kip-890-older-text; its README discusses the text."""
