"""Training and evaluation: loops, checkpoints, optimizers, the protocol of a result."""
