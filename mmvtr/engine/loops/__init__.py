"""Training and evaluation: loops, optimizers, checkpoints, resuming, the protocol of a result."""
