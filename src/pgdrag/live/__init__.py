"""What does an existing server do, under a load that is not pgdrag's? It is only read."""
