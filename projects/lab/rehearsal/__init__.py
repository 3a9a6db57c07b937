"""Rehearsals: a config's own training on simulated tower outputs, before anyone pays for a GPU."""
