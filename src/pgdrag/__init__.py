"""pgdrag finds out what slows a PostgreSQL system down, or speeds it up, by how much, and why."""

import os

__version__ = "0.1.0"

# NumPy's and SciPy's linear algebra reads this when it is loaded. pgdrag's matrices are small: more threads would
# spend most of their time waiting for each other, on processors that servers and other trials want.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
