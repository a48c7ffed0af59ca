"""Use cases, settings, and the one place that wires."""
