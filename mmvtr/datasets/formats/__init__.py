"""Published datasets, each read from the files that its authors and the community distribute."""
