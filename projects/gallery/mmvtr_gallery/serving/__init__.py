"""The gallery's HTTP service: routes, batching of queries, thumbnails, and a page."""
