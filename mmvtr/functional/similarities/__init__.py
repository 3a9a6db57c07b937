"""Scores from embeddings and tokens, at once or in tiles, and selection of the best."""
