"""Hooks of methods, and what they measure or draw."""
