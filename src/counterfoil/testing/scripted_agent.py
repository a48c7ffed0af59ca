"""An agent that does exactly what it is told, good or bad, without a model.

``python -m counterfoil.testing.scripted_agent STEP …`` does the steps in order and exits 0;
a step is ``name`` or ``name:argument``, a pair is ``name:one=two``. ``-`` reads steps from
the lines of stdin that start with ``step `` (so a prompt can carry them). ``--steps`` lists
all. Nothing heavy is imported, so that it starts fast.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from counterfoil.testing import claude_lines

FOREVER_SECONDS = 3600.0
LOOK_SECONDS = 0.02
STDIN_SECONDS = 1.0
MOST_GENERATIONS = 5000
GIT_WHO = ("-c", "user.name=Scripted Agent", "-c", "user.email=agent@localhost")


class ScriptedAgent:
    """One method per step; ``session`` is what the claude-like lines carry."""

    def __init__(self) -> None:
        self.session = claude_lines.SESSION

    # Files

    def do_write(self, argument: str) -> None:
        """PATH=TEXT: write a file, wherever it is; ``\\n`` is a line end."""
        path, text = _pair(argument)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text.replace("\\n", "\n"))

    def do_append(self, argument: str) -> None:
        """PATH=TEXT: add to a file."""
        path, text = _pair(argument)
        with open(path, "a") as out:
            out.write(text.replace("\\n", "\n"))

    def do_delete(self, argument: str) -> None:
        """PATH: remove a file."""
        Path(argument).unlink()

    def do_files(self, argument: str) -> None:
        """COUNT: create so many small files under ``many/``."""
        Path("many").mkdir(exist_ok=True)
        for number in range(int(argument)):
            Path(f"many/{number:06}.txt").write_text(f"{number}\n")

    def do_binary(self, argument: str) -> None:
        """PATH=BYTES: write a binary file of this size."""
        path, size = _pair(argument)
        block = bytes(range(256)) * 4096
        with open(path, "wb") as out:
            for left in range(int(size), 0, -len(block)):
                out.write(block[:left])

    def do_symlink(self, argument: str) -> None:
        """NAME=TARGET: a link, also out of the tree."""
        name, target = _pair(argument)
        Path(name).symlink_to(target)

    def do_count(self, argument: str) -> None:
        """PATH: add one line ``pid start`` to a file, to count how often this ran."""
        stat = Path("/proc/self/stat").read_bytes()
        start = stat[stat.rindex(b")") + 2 :].split()[19].decode()
        with open(argument, "a") as out:
            out.write(f"{os.getpid()} {start}\n")

    def do_need(self, argument: str) -> None:
        """PATH: exit 1 unless the file is there (fails first, passes when it has feedback)."""
        if not Path(argument).exists():
            self.do_err(f"{argument} is missing")
            sys.exit(1)

    def do_need_env(self, argument: str) -> None:
        """NAME: exit 1 unless the variable is set and not empty."""
        if not os.environ.get(argument):
            self.do_err(f"${argument} is missing")
            sys.exit(1)

    # Git

    def do_commit(self, argument: str) -> None:
        """[MESSAGE]: add and commit everything."""
        _git("add", "-A")
        _git(*GIT_WHO, "commit", "-q", "--no-gpg-sign", "--no-verify", "-m", argument or "work")

    def do_branch(self, argument: str) -> None:
        """NAME: make a branch and switch to it."""
        _git("switch", "-q", "-c", argument)

    def do_checkout(self, argument: str) -> None:
        """COMMIT: detach HEAD there."""
        _git("checkout", "-q", "--detach", argument or "HEAD")

    def do_index_lock(self, argument: str) -> None:
        """Leave ``index.lock`` behind."""
        path = Path(_git("rev-parse", "--git-path", "index.lock"))
        path.touch()

    def do_delete_worktree(self, argument: str) -> None:
        """Delete the folder it works in."""
        import shutil

        shutil.rmtree(Path.cwd())

    # Processes

    def do_grandchild(self, argument: str) -> None:
        """SECONDS[=PIDFILE]: a child in a session of its own that sleeps."""
        self._leave_behind(argument, _sleep)

    def do_daemon(self, argument: str) -> None:
        """SECONDS[=PIDFILE]: a double-forked daemon that sleeps."""
        self._leave_behind(argument, _sleep, daemon=True)

    def do_stubborn(self, argument: str) -> None:
        """SECONDS[=PIDFILE]: a daemon that ignores SIGTERM."""

        def ignore_and_sleep(seconds: float) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _sleep(seconds)

        self._leave_behind(argument, ignore_and_sleep, daemon=True)

    def do_unmarked(self, argument: str) -> None:
        """SECONDS[=PIDFILE]: a daemon in this folder with an empty environment."""
        self._leave_behind(argument, _sleep_unmarked, daemon=True)

    def do_escapee(self, argument: str) -> None:
        """SECONDS[=PIDFILE]: a daemon with an empty environment that works in ``/``."""

        def leave(seconds: float) -> None:
            os.chdir("/")
            _sleep_unmarked(seconds)

        self._leave_behind(argument, leave, daemon=True)

    def do_storm(self, argument: str) -> None:
        """COUNT[=SECONDS]: so many generations of one that forks its successor and leaves."""
        count, seconds = _pair(argument)
        if os.fork():
            return
        for _ in range(int(count)):
            _sleep(float(seconds or 0))
            if os.fork():
                os._exit(0)
        os._exit(0)

    def do_ignore_term(self, argument: str) -> None:
        """Ignore SIGTERM from here on."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_stop(self, argument: str) -> None:
        """Send itself SIGSTOP."""
        os.kill(os.getpid(), signal.SIGSTOP)

    def do_kill(self, argument: str) -> None:
        """NUMBER: die by this signal."""
        os.kill(os.getpid(), int(argument))

    def do_exit(self, argument: str) -> None:
        """CODE: end now."""
        sys.exit(int(argument))

    def _leave_behind(
        self, argument: str, work: Callable[[float], object], daemon: bool = False
    ) -> None:
        """Fork a process that works in a session of its own; its pid is in the file then."""
        seconds, pid_file = _pair(argument)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            if daemon and os.fork():
                os._exit(0)
            if pid_file:
                Path(pid_file).write_text(str(os.getpid()))
            os.write(writer, b".")
            try:
                work(float(seconds))
            finally:
                os._exit(0)
        os.read(reader, 1)
        os.close(reader)
        os.close(writer)
        if daemon:
            os.waitpid(child, 0)

    # Output

    def do_say(self, argument: str) -> None:
        """TEXT: a line on stdout."""
        _out(argument.encode("utf-8", "surrogateescape") + b"\n")

    def do_err(self, argument: str) -> None:
        """TEXT: a line on stderr."""
        _out(argument.encode("utf-8", "surrogateescape") + b"\n", 2)

    def do_line(self, argument: str) -> None:
        """BYTES: one line of this length, without its end counted."""
        block = b"x" * 65536
        for left in range(int(argument), 0, -len(block)):
            _out(block[:left])
        _out(b"\n")

    def do_torn(self, argument: str) -> None:
        """TEXT: a last line without its end."""
        _out(argument.encode())

    def do_bytes(self, argument: str) -> None:
        """HEX: these bytes."""
        _out(bytes.fromhex(argument))

    def do_garbage(self, argument: str) -> None:
        """Invalid UTF-8, CR, NUL and ANSI in lines that no parser wants."""
        _out(b"caf\xe9 \xff\xfe\r\nnul\0nul\n\x1b[31mred\x1b[0m\rover\n{not json\n")

    def do_env(self, argument: str) -> None:
        """NAME: print the variable as ``NAME=value``."""
        self.do_say(f"{argument}={os.environ.get(argument, '')}")

    # Waiting and stdin

    def do_sleep(self, argument: str) -> None:
        """SECONDS: say nothing for so long."""
        _sleep(float(argument))

    def do_hang(self, argument: str) -> None:
        """Do nothing for an hour."""
        _sleep(FOREVER_SECONDS)

    def do_wait_for(self, argument: str) -> None:
        """PATH: wait until the file is there."""
        while not Path(argument).exists():
            _sleep(LOOK_SECONDS)

    def do_stdin_closed(self, argument: str) -> None:
        """Exit 97 when stdin is open and nobody writes to it (real agents hang there)."""
        while select.select([0], [], [], STDIN_SECONDS)[0]:
            if not os.read(0, 65536):
                return
        self.do_err("stdin is an open pipe")
        sys.exit(97)

    def do_ask(self, argument: str) -> None:
        """[QUESTION]: ask on stdout, read the answer; exit 98 when nobody answers."""
        self.do_say(argument or "May I? [y/n]")
        if not sys.stdin.readline().startswith("y"):
            self.do_err("nobody answered")
            sys.exit(98)

    # What Claude Code prints

    def do_session(self, argument: str) -> None:
        """ID: the session that later claude lines carry (a foreign one, too)."""
        self.session = argument

    def do_claude(self, argument: str) -> None:
        """KIND, written ``claude-KIND``: lines as Claude Code prints them."""
        for line in claude_lines.KINDS[argument](self.session):
            _out(line)


def steps_of(words: Sequence[str]) -> list[str]:
    """The steps on a command line; ``-`` stands for those on stdin."""
    steps: list[str] = []
    for word in words:
        if word == "-":
            lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
            steps += [line[5:].strip() for line in lines if line.startswith("step ")]
        else:
            steps.append(word)
    return steps


def main(words: Sequence[str]) -> None:
    if "--steps" in words:
        import inspect

        for name, method in inspect.getmembers(ScriptedAgent, inspect.isfunction):
            if name.startswith("do_"):
                print(name[3:].replace("_", "-").ljust(16), method.__doc__)
        return
    agent = ScriptedAgent()
    for step in steps_of(words):
        name, _, argument = step.partition(":")
        if name.startswith("claude-"):
            name, argument = "claude", name.removeprefix("claude-")
        do = getattr(agent, "do_" + name.replace("-", "_"), None)
        if do is None:
            sys.exit(f"scripted_agent knows no step {name!r}; --steps lists them")
        do(argument)


def _pair(argument: str) -> tuple[str, str]:
    one, _, two = argument.partition("=")
    return one, two


def _out(data: bytes, descriptor: int = 1) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


def _sleep_unmarked(seconds: float) -> None:
    os.execve("/bin/sleep", ["sleep", str(seconds)], {})  # noqa: S606 - its own end is the point


def _git(*words: str) -> str:
    import subprocess

    done = subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
