"""Writes the median in a hurry, and with care once a gate has shown what is wrong with it."""

import os
from pathlib import Path

from rewrite import rewrite_function

IN_A_HURRY = '''
def median(heights: Sequence[float]) -> float:
    """The middle height. Raises ``ValueError`` when there are no heights."""
    if not heights:
        raise ValueError("no heights")
    return sorted(heights)[len(heights) // 2]
'''

WITH_CARE = '''
def median(heights: Sequence[float]) -> float:
    """The middle height. Raises ``ValueError`` when there are no heights."""
    if not heights:
        raise ValueError("no heights")
    ordered = sorted(heights)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
'''

told = os.environ.get("COUNTERFOIL_GATE_OUTPUT")
output = Path(told).read_text(encoding="utf-8", errors="replace") if told else ""
careful = "test_median_of_an_even_count" in output
print("the gate said what is wrong: an even count" if careful else "a first try")
rewrite_function("tidepool/stats.py", "median", WITH_CARE if careful else IN_A_HURRY)
