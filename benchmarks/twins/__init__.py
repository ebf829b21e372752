"""Does a twin answer as its original does? `python -m benchmarks.twins`."""
