"""The tables by which secrets are recognised: names and patterns, versioned together. Only data."""

from dataclasses import dataclass

RULESET = "2026.11"
"""Version of the tables below; rows keep it, so that older ones can be scanned again."""

SENSITIVE_NAMES = (
    "api_key",
    "apikey",
    "access_token",
    "authorization",
    "client_secret",
    "cookie",
    "credential",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "secret_access_key",
    "session_token",
    "token",
    "x_api_key",
)
FURTHER_NAMES = (
    "access_key",
    "account_key",
    "auth_key",
    "credentials",
    "encryption_key",
    "passphrase",
    "passwd",
    "secret_key",
    "signing_key",
)
NO_SECRET_TOKENS = (
    *("bos", "cls", "eos", "mask", "pad", "sep", "stop", "unk"),  # of a model's vocabulary
    *("continuation", "next", "page"),  # of paging
    *("first", "per"),  # of measurements: time_to_first_token, cost_per_token
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of the table: every match starts with one of the anchors.

    Where the pattern has a group, the group is the secret. ``bare``: the anchor is part of
    ordinary words, so no letter or digit may stand before it (an escape may).
    """

    kind: str
    anchors: tuple[str, ...]
    regex: str
    bare: bool = False


PATTERNS = (
    Pattern("anthropic", ("sk-ant-",), r"sk-ant-[\w-]{16,}"),
    Pattern("openai", ("sk-",), r"sk-(?:(?:proj|svcacct|admin|or-v1|lf)-)?[\w-]{20,}", bare=True),
    Pattern("github", ("ghp_", "gho_", "ghs_", "ghu_", "ghr_"), r"gh[posur]_\w{30,}"),
    Pattern("github", ("github_pat_",), r"github_pat_\w{22,}"),
    Pattern("gitlab", ("glpat-", "gldt-", "glrt-", "glptt-"), r"gl[a-z]{2,3}t?-[\w.-]{20,}"),
    Pattern("slack", ("xox",), r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}"),
    Pattern("slack", ("xapp-",), r"xapp-[\w-]{10,}"),
    Pattern("slack", ("hooks.slack.com/",), r"hooks\.slack\.com/([a-z]+/[\w/]{20,})"),
    Pattern("aws", ("AKIA", "ASIA"), r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])", bare=True),
    Pattern("aws", ("ABSK",), r"ABSK[A-Za-z0-9+/]{60,}={0,2}"),
    Pattern("google", ("AIza",), r"AIza[\w-]{30,}"),
    Pattern("google", ("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    Pattern("google", ("ya29.",), r"ya29\.[\w-]{20,}", bare=True),
    Pattern("stripe", ("sk_live_", "sk_test_"), r"sk_(?:live|test)_\w{16,}"),
    Pattern("stripe", ("rk_live_", "rk_test_"), r"rk_(?:live|test)_\w{16,}"),
    Pattern("webhook", ("whsec_",), r"whsec_[A-Za-z0-9+/_-]{16,}={0,2}"),
    Pattern("huggingface", ("hf_",), r"hf_[A-Za-z0-9]{30,}", bare=True),
    Pattern("npm", ("npm_",), r"npm_[A-Za-z0-9]{36,}", bare=True),
    Pattern("pypi", ("pypi-AgE",), r"pypi-AgE[\w-]{40,}"),
    Pattern("telegram", (":AA",), r":(AA[\w-]{33})(?<=\d{8}:.{35})(?![\w-])"),
    Pattern("sendgrid", ("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}", bare=True),
    Pattern("digitalocean", ("dop_v1_",), r"dop_v1_[a-f0-9]{64}"),
    Pattern("docker", ("dckr_pat_",), r"dckr_pat_[\w-]{20,}"),
    Pattern("groq", ("gsk_",), r"gsk_[A-Za-z0-9]{30,}", bare=True),
    Pattern("xai", ("xai-",), r"xai-[A-Za-z0-9]{40,}", bare=True),
    Pattern("perplexity", ("pplx-",), r"pplx-[A-Za-z0-9]{30,}"),
    Pattern("replicate", ("r8_",), r"r8_[A-Za-z0-9]{30,}", bare=True),
    Pattern("langsmith", ("lsv2_",), r"lsv2_[a-z]{2}_\w{30,}"),
    Pattern("databricks", ("dapi",), r"dapi[a-f0-9]{32}", bare=True),
    Pattern("atlassian", ("ATATT3",), r"ATATT3[\w=-]{50,}"),
    Pattern("vault", ("hvs.",), r"hvs\.[\w-]{20,}", bare=True),
    Pattern("age", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    Pattern("jwt", ("eyJ",), r"eyJ[\w-]{10,1024}\.[\w-]{10,}(?:\.[\w-]*){0,3}", bare=True),
    Pattern(
        "private-key",
        ("-----BEGIN",),
        r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-(?!----BEGIN)){0,16384}?-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|[\w+/=\s\\:,.-]*)",
    ),
    Pattern("url-userinfo", ("://",), r"://[^\s:@/\"'<>\\]{0,256}:([^\s@/\"'<>\\]{1,256})@"),
    Pattern("url-userinfo", ("://",), r"://(?=\w*\d)(\w{16,256})@"),
)
