"""From a command line to a run, and what it says on the way."""
