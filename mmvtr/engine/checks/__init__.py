"""Checks of a config that run before a training or test starts."""
