"""Databases behind the store seam."""
