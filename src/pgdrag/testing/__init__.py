"""Shipped for those who extend pgdrag: the simulated laboratory and a conformance suite a kind."""
