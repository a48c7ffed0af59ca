"""Protocols of everything outside, and the values that cross them. No implementation lives here."""
