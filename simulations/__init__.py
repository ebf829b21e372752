"""Does the instrument keep its promises? `make simulate`: its error rates, on systems with known truth."""
