"""Drawing functions that several analysis tools share."""
