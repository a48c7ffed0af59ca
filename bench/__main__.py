"""``python -m bench [--check] [--quick] [--write FILE] [--folder FOLDER] [NAME ...]``."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import plan, report, runner, start, steps
from bench.figures import Findings, MeasurementFailed, Sizes
from bench.limits import missed, unmeasured
from bench.worker import ROOT

MEASUREMENTS: Mapping[str, tuple[Callable[[Path, Any], Findings], Sizes[Any]]] = {
    "start": (start.measure, start.SIZES),
    "steps": (steps.measure, steps.SIZES),
    "runner": (runner.measure, runner.SIZES),
    "plan": (plan.measure, plan.SIZES),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 when a measurement failed or, checked, a limit was missed."""
    given = _parser().parse_args(argv)
    names = given.names or list(MEASUREMENTS)
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as folder:
        findings = {name: _measure(name, Path(folder) / name, given.quick) for name in names}
    print(report.table(findings))
    if given.write:
        given.write.write_text(report.as_json(findings))
    failed = any(found.failed for found in findings.values())
    missed_some = given.check and _misses_some(findings, whole=not given.names)
    return 1 if failed or missed_some else 0


def _measure(name: str, folder: Path, quick: bool) -> Findings:
    measure, sizes = MEASUREMENTS[name]
    print(f"measuring {name} ...", end=" ", file=sys.stderr, flush=True)
    began = perf_counter()
    folder.mkdir()
    try:
        found = measure(folder, sizes.of(quick))
    except MeasurementFailed as error:
        found = Findings((), failed=(f"{name}: {error}",))
    print(f"{perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def _misses_some(findings: Mapping[str, Findings], *, whole: bool) -> bool:
    figures = [figure for found in findings.values() for figure in found.figures]
    misses = missed(figures)
    for sentence in misses:
        print(f"missed: {sentence}")
    if whole:
        for key in unmeasured(figures):
            print(f"not checked: {key}")
    print(f"{len(misses)} limits missed" if misses else "every limit that was measured is kept")
    return bool(misses)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=report.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under two minutes")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".cache",
        help="where the files are made: its disk is what is measured (default: .cache)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
