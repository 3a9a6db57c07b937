"""Test-time transforms of an evaluation, and where their queries come from."""
