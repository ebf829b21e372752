"""One plug-in of each kind for pgdrag: one file each, found through the entry point in pyproject.toml."""
