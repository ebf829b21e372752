"""Loads for tests that do not ask how fast a server is."""

from pgdrag.model.load import Open

# Leaves the processors to the tests beside.
PACED = Open(rate_per_s=100)
