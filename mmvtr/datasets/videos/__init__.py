"""From video files and feature stores to the frames of an item."""
