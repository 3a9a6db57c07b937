"""A campaign against the project: seeded kills, mutations and faults, counted."""
