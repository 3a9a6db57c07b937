"""Fixtures of all tests of this repository, its projects included."""

pytest_plugins = ['common_fixtures']
