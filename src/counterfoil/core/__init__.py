"""Ground: errors, clock, ids, canonical JSON, redaction, limits. Knows nothing of runs."""
