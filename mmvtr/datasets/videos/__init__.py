"""Loading of an item's frames from video files and feature stores."""
