"""Claude Code as an agent: its command line, its environment, and where its program is found."""

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from counterfoil.agents.claude_stream import ClaudeReader
from counterfoil.agents.environment import BASIC, NETWORK
from counterfoil.agents.prompt import prompt_of
from counterfoil.core.errors import AgentUnavailable, ValueRefused
from counterfoil.ports.agent import Brief, Launch

PROGRAM_VARIABLE = "COUNTERFOIL_CLAUDE"

# Edits inside the worktree go through, anything else that would ask a person is refused and
# reported as a denial: nobody is there to ask. Bypassing every check is the plan's explicit
# choice (the program refuses it as root), and allowed_tools opens single tools.
DEFAULT_PERMISSION_MODE = "acceptEdits"

# A request may wait ten minutes for its answer, in silence; so did a tool that runs ten, before
# newer versions told every 30 seconds that it is still at work.
QUIET_SECONDS = 900.0

_ENV = {
    # Two attempts share one program: none may replace it while another runs.
    "DISABLE_AUTOUPDATER": "1",
    # Start-up failures are told as a result event instead of on stderr alone.
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
}
_SECRETS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
)
_SETTINGS = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "API_TIMEOUT_MS",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_TIMEOUT_MS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_EFFORT_LEVEL",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "IS_SANDBOX",
    "MAX_THINKING_TOKENS",
)
_OPTIONS = frozenset(
    {
        "allowed_tools",
        "args",
        "disallowed_tools",
        "max_budget_usd",
        "max_turns",
        "model",
        "permission_mode",
        "program",
        "quiet_seconds",
    }
)


class ClaudeAgent:
    """Runs ``claude -p`` with the prompt on stdin and its events as JSON lines.

    Options: ``model``, ``permission_mode``, ``allowed_tools`` and ``disallowed_tools`` (lists),
    ``max_turns``, ``max_budget_usd``, ``args`` (more of the command line), ``program``,
    ``quiet_seconds`` (how long without a word counts as a hang).
    """

    name = "claude"
    terminal_expected = True
    secrets: Sequence[str] = _SECRETS
    environment: Sequence[str] = (*BASIC, *NETWORK, *_SECRETS, *_SETTINGS)

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def launch(self, brief: Brief) -> Launch:
        """Raises ``AgentUnavailable``, or ``ValueRefused`` for an option that it cannot use."""
        options = _checked(brief)
        argv = [self._program(options.get("program")), "-p"]
        if tools := options.get("allowed_tools"):
            argv += ["--allowedTools", ",".join(tools)]
        if tools := options.get("disallowed_tools"):
            argv += ["--disallowedTools", ",".join(tools)]
        mode = str(options.get("permission_mode", DEFAULT_PERMISSION_MODE))
        argv += ["--permission-mode", mode, "--output-format", "stream-json", "--verbose"]
        for option in ("model", "max_turns", "max_budget_usd"):
            if option in options:
                argv += [f"--{option.replace('_', '-')}", str(options[option])]
        if brief.session is not None:
            argv += ["--resume", brief.session]
        argv += options.get("args", ())
        quiet = float(options.get("quiet_seconds", QUIET_SECONDS))
        return Launch(tuple(argv), env=dict(_ENV), stdin=prompt_of(brief), quiet_seconds=quiet)

    def reader(self) -> ClaudeReader:
        return ClaudeReader()

    def _program(self, wanted: str | None) -> str:
        """What the option names, else the variable, else PATH, else the SDK wheel's own."""
        named = wanted or self._environ.get(PROGRAM_VARIABLE)
        found = shutil.which(named or "claude", path=self._environ.get("PATH", os.defpath))
        if found is None and named is None:
            found = bundled_program()
        if found is None:
            raise AgentUnavailable(
                f"The program of the agent claude is not there: {named or 'claude'}.",
                hint="Install it (npm install -g @anthropic-ai/claude-code, or pip install "
                f"claude-agent-sdk, which carries it), or set {PROGRAM_VARIABLE} to its path.",
            )
        return str(Path(found).absolute())


def bundled_program() -> str | None:
    """The program inside the claude-agent-sdk wheel, found without importing the wheel."""
    spec = find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if found := shutil.which("claude", path=str(Path(folder, "_bundled"))):
            return found
    return None


def _checked(brief: Brief) -> Mapping[str, Any]:
    options = brief.options
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueRefused(
            f"Task {brief.task_id} gives the agent claude unknown options: {', '.join(unknown)}.",
            hint=f"Known options: {', '.join(sorted(_OPTIONS))}.",
        )
    for option in ("allowed_tools", "disallowed_tools", "args"):
        value = options.get(option, [])
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise ValueRefused(
                f"Task {brief.task_id}: claude's option {option} is a list of texts."
            )
    quiet = options.get("quiet_seconds", QUIET_SECONDS)
    if isinstance(quiet, bool) or not isinstance(quiet, int | float) or not 0 < quiet < math.inf:
        raise ValueRefused(
            f"Task {brief.task_id}: claude's option quiet_seconds is {quiet!r}.",
            hint="It is a number of seconds above 0.",
        )
    return options
