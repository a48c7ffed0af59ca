"""A keeper whose fault strikes once: the n-th keeper of a folder has it, all others are well.

``keeper_once.py ACTION:POINT NUMBER ROOT FOLDER``
"""

import os
import sys
from pathlib import Path

fault, number, root, folder = sys.argv[1:]
turns = os.open(f"{root}/turns", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(turns, b".")
turn = os.fstat(turns).st_size
os.close(turns)
module = "counterfoil.executors.keeper"
arguments = [folder]
if turn == int(number):
    module = "counterfoil.testing.keeper_faults"
    arguments = [fault, str(Path(root) / "held"), folder]
os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
