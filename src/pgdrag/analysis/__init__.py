"""What do the numbers say? Pure functions on values: no server, no clock, no files."""
