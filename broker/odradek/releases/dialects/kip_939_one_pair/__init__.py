"""The dialect kip-939-one-pair; its README discusses the text."""
