"""Hooks: of methods, of test-time transforms, and those that measure, draw or log."""
