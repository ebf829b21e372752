"""pgdrag finds out what slows a PostgreSQL system down, or speeds it up, by how much, and why."""

__version__ = "0.1.0"
