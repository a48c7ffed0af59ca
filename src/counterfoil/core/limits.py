"""The sizes at which things are cut, kept elsewhere or refused: every such number, once."""

SUMMARY_CHARACTERS = 8_192
"""Summaries are cut here and flagged as cut."""

INLINE_BYTES = 8_192
"""Exact inputs and results over this go to the artifact store; the row keeps a pointer."""

ERROR_MESSAGE_CHARACTERS = 8_192
TRACEBACK_CHARACTERS = 32_768

MAX_VALUE_DEPTH = 128
"""How deep a recorded value may nest, counted in containers."""

MAX_VALUE_COUNT = 10_000_000
"""How many values one recorded value may hold; a shared part counts wherever it appears."""

MAX_LINE_BYTES = 1_048_576
"""A longer line of an agent's output is handed on cut, once, and its rest is skipped."""

READ_CHUNK_BYTES = 65_536
"""How much of a growing file is read at a time."""

MAX_PLAN_BYTES = 268_435_456
MAX_PLAN_LINE_BYTES = 67_108_864

_OMISSION = "\n[{count} characters left out]\n"


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The first ``limit`` characters, and whether any were lost."""
    if len(text) <= limit:
        return text, False
    return text[:limit], True


def cut_middle(text: str, limit: int) -> tuple[str, bool]:
    """At most ``limit`` characters: the first quarter, a note, and the end.

    For text whose end says most, such as a traceback. Returns whether any were lost.
    """
    if len(text) <= limit:
        return text, False
    room = limit - len(_OMISSION.format(count=len(text)))
    if room <= 0:
        return text[len(text) - limit :], True
    head = room // 4
    tail = room - head
    note = _OMISSION.format(count=len(text) - room)
    return text[:head] + note + text[len(text) - tail :], True
