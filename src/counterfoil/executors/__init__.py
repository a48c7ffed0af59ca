"""Commands under keepers, on this machine."""
