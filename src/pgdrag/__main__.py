"""`python -m pgdrag` is `pgdrag`."""

from pgdrag.cli import main

main()
