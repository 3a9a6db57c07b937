"""The gallery's command-line tools, found by `mmvtr NAME` as entry points."""
