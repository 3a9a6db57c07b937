"""Sections of tools/benchmark/cpu.py: a row is work of mmvtr beside an anchor, in one process."""
