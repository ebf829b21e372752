"""The experiments that come with pgdrag: one TOML file each, found by name."""
