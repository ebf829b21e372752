"""The load driver's process, the contract it speaks, and connection strings."""
