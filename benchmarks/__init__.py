"""pgdrag against its peers and against the limit, side by side; see docs/benchmarks.md."""
