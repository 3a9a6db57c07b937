"""The generator of planted corpora: clips and captions whose truth is known exactly."""
