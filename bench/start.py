"""How long ``counterfoil --help`` takes as a whole process, and what of it is Python's own."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.figures import Figure, Findings, Sizes, interleave


@dataclass(frozen=True, slots=True)
class StartSizes:
    rounds: int


SIZES = Sizes(full=StartSizes(25), quick=StartSizes(9))


def measure(folder: Path, sizes: StartSizes) -> Findings:
    """Medians of whole processes, with compiled code at hand and without any."""
    command = Path(sys.executable).with_name("counterfoil")
    if not command.exists():
        return Findings((), skipped=("the command counterfoil is not installed beside Python",))
    given = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compiled = given | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    bare = compiled | {
        "PYTHONPYCACHEPREFIX": str(folder / "nothing"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    show_help = [str(command), "--help"]
    contenders = {
        "help": _process(show_help, compiled),
        "help_uncompiled": _process(show_help, bare),
        "python": _process([sys.executable, "-c", "pass"], compiled),
    }
    for run in contenders.values():
        run()
    taken = {name: median(times) for name, times in interleave(contenders, sizes.rounds).items()}
    said = {
        "help": "counterfoil --help, whole process",
        "help_uncompiled": "the same without any compiled code",
        "python": "python -c pass",
    }
    return Findings(tuple(Figure(f"start.{name}", taken[name], "ms", said[name]) for name in said))


def _process(argv: Sequence[str], env: Mapping[str, str]) -> Callable[[], float]:
    def run() -> float:
        began = perf_counter()
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
        return (perf_counter() - began) * 1000

    return run
