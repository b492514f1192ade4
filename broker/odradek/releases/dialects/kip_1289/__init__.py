"""The dialect kip-1289; its README discusses the text."""
