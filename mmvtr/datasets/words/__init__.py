"""From a caption to token ids, tags, classes and role graphs."""
