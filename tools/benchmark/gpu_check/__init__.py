"""Sections of tools/benchmark/gpu.py; they also run on a CPU."""
