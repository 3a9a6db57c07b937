"""A gallery that answers over HTTP: routes, queries in flight, pictures, and a page."""
