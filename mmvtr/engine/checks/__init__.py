"""What is wrong with a config, before hours of work."""
