"""KIP-890 in one picture: `python -m odradek_pipeline.demo`."""
