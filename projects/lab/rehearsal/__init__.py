"""Rehearsals: a config's own training on simulated tower outputs, before a GPU is paid for."""
