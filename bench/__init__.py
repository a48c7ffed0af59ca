"""What a durable step, an attempt and a plan cost, beside the floor below them and their peers.

Scripts for this repository's own use; no part of the installed package.
"""
