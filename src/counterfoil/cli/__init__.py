"""The command line: a door, no decisions."""
