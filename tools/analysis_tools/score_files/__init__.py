"""Score files of other tools: their formats, and what is said of those that are not read."""
