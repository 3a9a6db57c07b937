"""Generator of planted corpora: clips and captions whose true relations are known exactly."""
