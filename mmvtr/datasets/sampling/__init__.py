"""Which items an epoch visits, in which environments and order, and how they make a batch."""
