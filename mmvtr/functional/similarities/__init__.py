"""From embeddings and tokens to scores, at once or tile by tile; the best of them."""
