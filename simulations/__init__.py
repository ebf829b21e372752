"""Does the instrument keep its promises? `make simulate`: its error rates, on systems with known truth."""

import pgdrag  # noqa: F401 (before NumPy, which it keeps to one thread)
