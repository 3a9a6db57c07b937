"""Videos and captions of one's own, told by a table."""
