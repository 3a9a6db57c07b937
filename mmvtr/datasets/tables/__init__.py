"""Datasets from a user's own table of videos and captions."""
