"""Hooks of methods, and hooks that measure or draw."""
