"""What pgdrag sees and changes of the machine: processes, mounts, devices, control groups, locks, undo."""
