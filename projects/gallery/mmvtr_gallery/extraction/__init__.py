"""Encoding of videos for stores: windows of a video, and Arrow rows of videos by the million."""
