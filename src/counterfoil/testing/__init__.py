"""Shipped fakes, scripted agents and fault-injecting parts."""
