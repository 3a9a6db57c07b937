"""Studies: rows of trainings that depend on each other, made in order, and their table."""
