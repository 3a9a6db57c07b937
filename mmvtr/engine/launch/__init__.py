"""From a command line to a run, and the run's messages."""
