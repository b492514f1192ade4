"""The dialect kip-994; its README discusses the text."""
