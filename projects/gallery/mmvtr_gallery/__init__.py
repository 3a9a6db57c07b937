"""Gallery tools: on-disk stores, an HTTP service, large-scale extraction, and exports."""

__version__ = '2.0.0'
