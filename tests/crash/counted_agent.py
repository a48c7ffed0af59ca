"""An agent that tells when it starts, finds out whether another one of its task lives, works."""

import fcntl
import os
import sys

task = sys.argv[1]
log = os.environ["CRASH_LOG"]
attempt = os.environ["COUNTERFOIL_ATTEMPT"]


def tell(name, line):
    file = os.open(f"{log}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode() + b"\n")
    os.close(file)


tell("starts", attempt)
alone = os.open(f"{log}/{task}.alone", os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    tell("overlaps", attempt)
with open(f"{task}.txt", "w") as file:
    file.write(f"{task}\n")
