"""Parts of tools/benchmark/gpu.py: what runs on a CPU here, checked and timed on a GPU."""
