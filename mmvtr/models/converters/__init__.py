"""Official checkpoints in our names."""
