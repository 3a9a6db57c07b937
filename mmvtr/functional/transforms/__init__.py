"""What becomes of score matrices at test time."""
