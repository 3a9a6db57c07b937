"""The parts of ``effects.py``: what is trained, its files, statistics, the page, pictures."""
