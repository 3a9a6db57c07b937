"""Token ids, tags, classes and role graphs of captions."""
