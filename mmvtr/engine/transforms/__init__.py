"""Test-time transforms of an evaluation, and the sources of their queries."""
