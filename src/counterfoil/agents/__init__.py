"""One adapter per kind of agent: how to start it, how to read it."""
