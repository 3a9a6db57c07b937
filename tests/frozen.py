"""Imported last by a server of processes: what all children share no search for garbage touches."""

import gc

gc.collect()
gc.freeze()
