"""Implementations of ports that are not databases, agents or executors: git, blobs."""
