"""Checks of a config and of what it builds, before a training or test starts."""
