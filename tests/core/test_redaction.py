"""Planted secrets never survive, ordinary text always does, and the input is never changed."""

import base64
import copy
import dataclasses
import json
import random
import string
import threading
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core import redaction
from counterfoil.core.codec import encode, encode_safely
from counterfoil.core.detection import is_sensitive
from counterfoil.core.patterns import PATTERNS, SENSITIVE_NAMES
from counterfoil.core.redaction import BLANKED, RULESET, Redactor
from counterfoil.core.stream_redaction import StreamRedactor

quick = settings(database=None, deadline=None, max_examples=50)

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def made(alphabet, length, seed=7):
    chosen = random.Random(seed)
    return "".join(chosen.choice(alphabet) for _ in range(length))


def jwt():
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "somebody"})
    written = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*written, made(ALNUM, 43).encode()]).decode()


PRIVATE_KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        *(made(ALNUM + "+/", 64, seed) for seed in range(20)),
        "-----END RSA PRIVATE KEY-----",
    ]
)

TOKENS = {
    "anthropic": "sk-ant-api03-" + made(ALNUM + "-_", 80),
    "openai": "sk-" + made(ALNUM, 48),
    "openai-project": "sk-proj-" + made(ALNUM + "-_", 90),
    "openrouter": "sk-or-v1-" + made(HEX, 64),
    "github": "ghp_" + made(ALNUM, 36),
    "github-oauth": "gho_" + made(ALNUM, 36),
    "github-server": "ghs_" + made(ALNUM, 36),
    "github-user": "ghu_" + made(ALNUM, 36),
    "github-refresh": "ghr_" + made(ALNUM, 76),
    "github-fine": "github_pat_" + made(ALNUM, 22) + "_" + made(ALNUM, 59),
    "gitlab": "glpat-" + made(ALNUM + "-_", 20),
    "slack": "xoxb-123456789012-1234567890123-" + made(ALNUM, 24),
    "slack-app": "xapp-1-A0123456789-" + made(HEX, 64),
    "aws": "AKIA" + made(UPPER, 16),
    "aws-session": "ASIA" + made(UPPER, 16),
    "google": "AIza" + made(ALNUM + "-_", 35),
    "stripe": "sk_live_" + made(ALNUM, 24),
    "stripe-restricted": "rk_test_" + made(ALNUM, 24),
    "webhook": "whsec_" + made(ALNUM, 32),
    "huggingface": "hf_" + made(string.ascii_letters, 34),
    "npm": "npm_" + made(ALNUM, 36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + made(ALNUM + "-_", 150),
    "telegram": "AA" + made(ALNUM + "-_", 33),
    "sendgrid": "SG." + made(ALNUM, 22) + "." + made(ALNUM, 43),
    "groq": "gsk_" + made(ALNUM, 52),
    "jwt": jwt(),
    "private-key": PRIVATE_KEY,
}
BEFORE = {"telegram": "1234567890:"}

CARRIERS = {
    "alone": lambda token: token,
    "in prose": lambda token: f"The key is {token}, keep it.",
    "quoted": lambda token: f'client = Client("{token}")',
    "in a query": lambda token: f"GET https://api.example.com/v1?x=1&k={token}&y=2 failed",
    "after an escape": lambda token: f"line one\\n{token}\\nline two",
    "after a percent escape": lambda token: f"q%20{token}%20r",
    "in a list": lambda token: ["a", [token]],
    "deep in dicts": lambda token: {"a": {"b": [{"c": f"x {token}"}]}},
    "in a tuple in a set": lambda token: {("a", token)},
    "as a key": lambda token: {token: 1},
    "in JSON": lambda token: {"body": json.dumps({"data": [token]})},
    "in JSON in JSON": lambda token: json.dumps({"data": json.dumps({"inner": token})}),
    "in bytes": lambda token: b"\xff\x00" + token.encode() + b"\n",
    "in a path": lambda token: Path("/tmp") / token.replace("/", "_"),
}


def leaked(value, secret):
    """Whether the secret stands in the value's record; newlines may be written in three ways."""
    text = encode(value)
    data = b"" if not isinstance(value, bytes) else value
    forms = {secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]}
    return any(form in text or form.encode() in data for form in forms)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_planted_token_survives_in_no_carrier(kind):
    token = TOKENS[kind]
    redactor = Redactor()
    for name, carrier in CARRIERS.items():
        if kind == "private-key" and name in ("in a path", "after a percent escape"):
            continue
        planted = carrier(BEFORE.get(kind, "") + token)
        clean, paths = redactor.value(planted)
        assert not leaked(clean, token), (name, clean)
        assert "[REDACTED:" in str(clean), name
        assert paths, name


@pytest.mark.parametrize("kind", sorted({row.kind for row in PATTERNS} & TOKENS.keys()))
def test_the_marker_names_the_kind(kind):
    before = BEFORE.get(kind, "")
    clean = Redactor().text(f"a {before}{TOKENS[kind]} z")
    assert clean == f"a {before}[REDACTED:{kind}] z"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("curl -H 'Authorization: Token abcdefgh' https://x", "abcdefgh"),
        ("authorization: Basic dXNlcjpodW50ZXIyaHVudGVyMg==", "dXNlcjpodW50ZXIyaHVudGVyMg"),
        ("sent Basic dXNlcjpodW50ZXIyaHVudGVyMg== to it", "dXNlcjpodW50ZXIyaHVudGVyMg"),
        ("map[Authorization:[Bearer abc.def.ghi123]]", "abc.def.ghi123"),
        ("> Cookie: session=abc; theme=dark", "abc;"),
        ("Set-Cookie: sid=abc123; Path=/", "abc123"),
        ("X-Api-Key: hunter2hunter2", "hunter2hunter2"),
        ("https://user:hunter2@example.com/x", "hunter2"),
        ("postgres://app:p%40ss@db:5432/app", "p%40ss"),
        ("https://d3adb33fd3adb33fd3adb33f@o1.ingest.example.com/1", "d3adb33fd3adb33fd3adb33f"),
        ("GET /v1beta/models?key=abcdef HTTP/1.1", "abcdef"),
        ("https://x/y?a=1&access_token=zzz&b=2", "zzz"),
        ("https://x/y?a=1\\u0026key=abcdefgh", "abcdefgh"),
        ("https://x/b?X-Amz-Signature=0123abcd&X-Amz-Expires=60", "0123abcd"),
        ("https://x/y?password=hunter", "hunter"),
        ("DB_PASSWORD=correcthorse", "correcthorse"),
        ("export GITHUB_TOKEN=a(b&c;d", "a(b&c;d"),
        ("OPENAI_API_KEY_2=abcdefgh", "abcdefgh"),
        ("password=hunter2, user=bob", "hunter2"),
        ('password = "correct horse"', "correct horse"),
        ("{'api_key': 'correct horse', 'n': 1}", "correct horse"),
        ('{"secretAccessKey": "wJalr/XUtn"', "wJalr/XUtn"),
        ('{\\"password\\":\\"hunter two\\",\\"n\\":1', "hunter two"),
        ('say "{\\\\\\"token\\\\\\":\\\\\\"hunter two\\\\\\"}', "hunter two"),
        ('{"password": "a\\"b secret rest", "n": 1', "secret rest"),
        ("db:\n  password: correcthorse\n  port: 1\n", "correcthorse"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
        ("run --password hunter2 --verbose", "hunter2"),
        ('os.environ["DB_PASSWORD"] = "hunter2"', "hunter2"),
        ('passphrase => "open sesame"', "open sesame"),
    ],
)
def test_secrets_that_a_name_or_a_place_gives_away_are_found(text, secret):
    clean = Redactor().text(text)
    assert secret not in clean
    assert "[REDACTED:" in clean


@pytest.mark.parametrize(
    "text",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        "task-550e8400e29b41d4a716446655440000",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "run_0198f2c0a1b27c3d8e4f5a6b7c8d9e0f",
        "max_tokens=4096, prompt_tokens: 123456, token_count=17",
        '{"max_tokens": 4096, "author": "somebody", "tokens": ["a", "b"]}',
        "risk-adjusted returns, task-1, disk-usage, desk-lamp-with-a-very-long-name-1234",
        "the author: Jane Doe, authority: none",
        "Bearer authentication is required; basic information follows",
        "bearer authentication/authorization schemes",
        "token = self.next_token()",
        "token = tokens[i]",
        "self.password = password",
        "def login(user, password=password, token=None): ...",
        "api_key: str | None = None",
        "password: string;",
        "token: required",
        'password=os.environ["DB_PASSWORD"]',
        "API_KEY=${API_KEY} TOKEN=$TOKEN",
        "password: ********",
        "https://example.com:8080/a@b?page=2&sort_key=name",
        "git@github.com:owner/repo.git and ssh://git@github.com/owner/repo",
        "eyJvZmZzZXQiOjEwfQ is a cursor",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "see hooks.slack.com/docs and xoxo and sk-1 and hf_space and npm_config_registry",
        "ratio 10:AA and AKIA alone",
        "the secret of good soup: patience",
        "a cookie: small, sweet",
        "12:30:45 INFO secret_id=sec_1 token_type=Bearer",
        "x" * 5_000,
        "",
    ],
)
def test_ordinary_text_survives(text):
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.text(text) is text
    value = {"text": text}
    assert redactor.value(value)[0] is value
    assert redactor.data(text.encode()) == text.encode()


@pytest.mark.parametrize("name", SENSITIVE_NAMES)
def test_each_listed_name_is_sensitive_however_it_is_written(name):
    words = name.split("_")
    for written in (
        name,
        name.upper(),
        "-".join(words).upper(),
        words[0] + "".join(word.title() for word in words[1:]),
        "".join(word.title() for word in words),
        f"db_{name}",
        f"github.{name}",
        f"X-{'-'.join(words)}",
    ):
        assert is_sensitive(written), written


@pytest.mark.parametrize(
    "name",
    [
        *("db_password", "github_token", "set-cookie", "Proxy-Authorization", "openaiApiKey"),
        *("AWS_SECRET_ACCESS_KEY", "passwd", "secretKey", "GEMINI_API_KEY_2", "APIKey"),
    ],
)
def test_compounds_that_end_in_a_name_are_sensitive(name):
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "token_count", "tokens", "author", "prompt_tokens", "maxTokens"),
        *("token_type", "tokenizer", "authorization_url", "secret_id", "secretary", "monkey"),
        *("next_page_token", "eos_token", "cost_per_token", "time_to_first_token", "key"),
        *("primary_key", "public_key", "password_changed_at", "mytoken", ""),
    ],
)
def test_counters_and_look_alikes_are_not_sensitive(name):
    assert not is_sensitive(name)


@pytest.mark.parametrize("value", ["x", 12345678, 1.5, ["a"], {"a": 1}, b"x", ("a", "b")])
def test_a_value_under_a_sensitive_name_is_blanked_whole(value):
    clean, paths = Redactor().value({"n": [{"dbPassword": value, "user": "bob"}]})
    assert clean == {"n": [{"dbPassword": BLANKED, "user": "bob"}]}
    assert paths == ("/n/0/dbPassword",)


@pytest.mark.parametrize("value", [None, True, False, "", [], {}, BLANKED])
def test_what_holds_nothing_is_kept_under_a_sensitive_name(value):
    given_value = {"password": value}
    clean, paths = Redactor().value(given_value)
    assert clean is given_value
    assert paths == ()


def test_a_reference_by_secret_id_is_kept_and_its_other_names_are_walked():
    given_value = {
        "credential": {
            "secret_id": "sec_1",
            "version": 3,
            "password": "x",
            "note": TOKENS["github"],
        },
        "token": {"secret_id": 5},
    }
    clean, paths = Redactor().value(given_value)
    assert clean == {
        "credential": {
            "secret_id": "sec_1",
            "version": 3,
            "password": BLANKED,
            "note": "[REDACTED:github]",
        },
        "token": BLANKED,
    }
    assert paths == ("/credential/password", "/credential/note", "/token")


@pytest.mark.parametrize(
    ("value", "clean", "paths"),
    [
        (
            {"headers": {"Authorization": ["Bearer x"], "Accept": ["*/*"]}},
            {"headers": {"Authorization": BLANKED, "Accept": ["*/*"]}},
            ("/headers/Authorization",),
        ),
        (
            [["Set-Cookie", "a=b"], ["Accept", "*/*"]],
            [["Set-Cookie", BLANKED], ["Accept", "*/*"]],
            ("/0",),
        ),
        (
            [(b"authorization", b"x"), (b"accept", b"*/*")],
            [(b"authorization", BLANKED), (b"accept", b"*/*")],
            ("/0",),
        ),
        (
            [{"name": "X-Api-Key", "value": "x"}, {"name": "Accept", "value": "*/*"}],
            [{"name": "X-Api-Key", "value": BLANKED}, {"name": "Accept", "value": "*/*"}],
            ("/0/value",),
        ),
        (
            ["login", "--password", "x", "--user", "bob"],
            ["login", "--password", BLANKED, "--user", "bob"],
            ("/2",),
        ),
        ({"required": ["password", "user"]}, {"required": ["password", "user"]}, ()),
        (
            {"a/b": {"c~d": {"token": "x"}}},
            {"a/b": {"c~d": {"token": BLANKED}}},
            ("/a~1b/c~0d/token",),
        ),
    ],
)
def test_headers_pairs_and_flags_are_blanked_where_they_stand(value, clean, paths):
    assert Redactor().value(value) == (clean, paths)


@pytest.mark.parametrize(
    "text",
    [
        'password="[REDACTED]hunter2"',
        "password=[REDACTED]hunter2",
        "DB_PASSWORD=[REDACTED:assignment]hunter2",
        "Authorization: [REDACTED] hunter2",
    ],
)
def test_a_marker_before_a_secret_does_not_hide_it(text):
    assert "hunter2" not in Redactor().text(text)


def test_json_in_text_is_redacted_by_its_names_and_stays_json():
    text = ' {"user": "bob", "password": {"a": ["x"]}, "n": "{\\"token\\": 5}"}\n'
    clean = Redactor().text(text)
    assert json.loads(clean) == {"user": "bob", "password": BLANKED, "n": '{"token": "[REDACTED]"}'}
    assert (clean[0], clean[-1]) == (" ", "\n")


def test_each_json_line_of_a_transcript_is_redacted_by_its_names():
    lines = ['{"type":"tool","input":{"password":["é"]}}', "plain", '{"ok":[1.5,"é"]}']
    clean = Redactor().data("\n".join(lines).encode()).decode().split("\n")
    assert json.loads(clean[0]) == {"type": "tool", "input": {"password": BLANKED}}
    assert clean[1:] == lines[1:]


@dataclasses.dataclass(frozen=True)
class Login:
    user: str
    password: str


def test_a_dataclass_becomes_an_object_only_when_something_was_found():
    redactor = Redactor()
    assert redactor.value(Login("bob", "x"))[0] == {"user": "bob", "password": BLANKED}
    harmless = [Login("bob", "")]
    assert redactor.value(harmless)[0] is harmless


def test_two_secret_names_stay_two_entries():
    value = {TOKENS["github"]: 1, TOKENS["github-oauth"]: 2}
    clean, paths = Redactor().value(value)
    assert sorted(clean.values()) == [1, 2]
    assert len(set(paths)) == 2


secrets = st.one_of(
    st.text(ALNUM, min_size=8, max_size=40),
    st.text(string.printable, min_size=8, max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30),
).filter(lambda text: len(text.strip()) >= 8 and len(set(text)) > 4)
around = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

ENCODINGS = {
    "plain": lambda secret: secret,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "urlsafe base64": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "percent": lambda secret: quote(secret, safe=""),
    "percent with slashes": quote,
    "form": quote_plus,
    "json": lambda secret: json.dumps(secret)[1:-1],
    "json with letters": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "json in json": lambda secret: json.dumps(json.dumps(secret))[3:-3],
    "hex": lambda secret: secret.encode().hex(),
    "upper hex": lambda secret: secret.encode().hex().upper(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@quick
@given(secret=secrets, before=around, after=around)
def test_a_known_secret_survives_in_none_of_its_encodings(encoding, secret, before, after):
    redactor = Redactor([secret])
    written = ENCODINGS[encoding](secret)
    text = f"{before} {written} {after}"
    assert written not in redactor.text(text)
    assert written.encode() not in redactor.data(text.encode())
    clean, paths = redactor.value({"a": [text], "b": {text: 1}})
    assert written not in clean["a"][0]
    assert all(written not in key for key in clean["b"])
    assert len(paths) >= 2


@quick
@given(secret=secrets, before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_a_known_secret_inside_longer_base64_is_found(secret, before, after):
    redactor = Redactor([secret])
    whole = before + secret.encode() + after
    for write in (base64.b64encode, base64.urlsafe_b64encode):
        clean = redactor.text("x " + write(whole).decode())
        assert "[REDACTED:secret]" in clean


def test_the_longer_of_two_known_secrets_leaves_nothing_behind():
    redactor = Redactor(["hunter2hunter", "hunter2hunter-and-more"])
    assert redactor.text("a hunter2hunter-and-more z") == "a [REDACTED:secret] z"
    overlapping = Redactor(["abcdefgh", "efghijkl"])
    assert overlapping.text("a abcdefghijkl z") == "a [REDACTED:secret] z"


def test_numbers_equal_to_a_known_secret_are_found():
    redactor = Redactor(["12345678"])
    assert redactor.value({"pin": 12345678, "n": 1234567}) == (
        {"pin": "[REDACTED:secret]", "n": 1234567},
        ("/pin",),
    )


def test_secrets_too_short_to_be_told_from_text_are_not_searched_for():
    redactor = Redactor(["abc", "     a     "])
    redactor.register("12345")
    assert redactor.text("abc 12345") == "abc 12345"


def test_secrets_may_be_registered_while_others_redact():
    redactor = Redactor()
    names = [f"registered-{number:03d}" for number in range(40)]
    stop = threading.Event()
    failures = []

    def read():
        while not stop.is_set():
            clean = redactor.text("registered-000 and more")
            if clean not in ("registered-000 and more", "[REDACTED:secret] and more"):
                failures.append(clean)

    def write(mine):
        for name in mine:
            redactor.register(name)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(names[start::4],)) for start in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert failures == []
    assert redactor.known.secrets == set(names)


@quick
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=10) | st.sampled_from([*TOKENS.values()]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "token", "url"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_the_given_value_is_never_changed_and_redacting_again_finds_nothing(value):
    before = copy.deepcopy(value)
    redactor = Redactor()
    clean, paths = redactor.value(value)
    assert value == before
    assert (clean is value) == (paths == ())
    again, more = redactor.value(clean)
    assert again is clean
    assert more == ()


@quick
@given(st.text(max_size=60), st.sampled_from(["password=", '"token": "', "key: ", "Bearer "]))
def test_redacting_a_text_twice_changes_nothing_more(text, before):
    redactor = Redactor()
    once = redactor.text(before + text)
    assert redactor.text(once) == once


def test_bytes_that_are_not_text_stay_as_they_are():
    data = bytes(range(256)) * 10
    redactor = Redactor()
    assert redactor.data(data) is data
    planted = data + b" token=hunter2secret " + data
    assert redactor.data(planted) == data + b" token=[REDACTED:assignment] " + data


def test_a_redactor_that_fails_keeps_only_size_hash_and_names(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(redaction, "find", broken)
    value = {"command": f"use {TOKENS['github']}", "other": 1}
    clean, paths = Redactor().value(value)
    assert clean["withheld"] is True
    assert clean["size_bytes"] == len(encode(value))
    assert len(clean["sha256"]) == 64
    assert clean["names"] == ["command", "other"]
    assert paths == ("",)
    assert not leaked(clean, TOKENS["github"])
    assert TOKENS["github"] not in Redactor().text(f"use {TOKENS['github']}")
    assert b"ghp_" not in Redactor().data(f"use {TOKENS['github']}".encode())


def test_a_value_that_contains_itself_is_withheld():
    value = {"token_holder": TOKENS["github"]}
    value["self"] = value
    clean, _ = Redactor().value(value)
    assert clean["withheld"] is True
    assert "ghp_" not in encode_safely(clean)


def pieces_of(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


STREAM = "\n".join(
    [
        '{"type":"tool","input":{"password":"hunter two","n":1}}',
        f"the key {TOKENS['anthropic']} and https://u:hunter2@h/",
        PRIVATE_KEY,
        "known: line one of it\nline two of it, end",
        "plain é text",
        f"torn {TOKENS['github']}",
    ]
).encode()
PLANTED = [
    b"hunter two",
    TOKENS["anthropic"].encode(),
    b"hunter2",
    made(ALNUM + "+/", 64, 7).encode(),
    b"line two of it",
    TOKENS["github"].encode(),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 333, 100_000])
def test_a_stream_in_pieces_of_any_size_lets_no_secret_through(size):
    redactor = Redactor(["line one of it\nline two of it"])
    stream = StreamRedactor(redactor)
    out = b"".join(stream.feed(piece) for piece in pieces_of(STREAM, size)) + stream.finish()
    assert not [secret for secret in PLANTED if secret in out]
    assert out == redactor.data(STREAM)


def test_a_stream_gives_out_whole_lines_at_once():
    stream = StreamRedactor(Redactor())
    assert stream.feed(b"one\ntwo token=") == b"one\n"
    assert stream.feed(b"hunter2\n") == b"two token=[REDACTED:assignment]\n"
    assert stream.finish() == b""


@pytest.mark.parametrize("gap", [0, 1, 40, 100, 150, 200, 250, 300, 2_000])
def test_a_line_without_an_end_is_given_out_in_bounded_parts_that_part_no_secret(gap):
    stream = StreamRedactor(Redactor(["known-secret"]))
    unit = b"a" * gap + b' password="hunter two" ' + TOKENS["github"].encode() + b" known-secret "
    data = unit * (400_000 // len(unit))
    out = b""
    for piece in pieces_of(data, 4_999):
        out += stream.feed(piece)
        assert len(stream._buffer) <= 2 * 32_768
    out += stream.finish()
    for secret in (b"hunter two", b"ghp_", b"known-secret"):
        assert secret not in out
    assert out.count(b"[REDACTED:github]") == data.count(b"ghp_")


def test_the_ruleset_is_versioned():
    assert RULESET == "2026.11"


def test_variables_that_name_a_secret_are_registered_and_others_are_not() -> None:
    redactor = Redactor()
    secrets = {
        name: f"{name.lower()}-value-1234"
        for name in ("GITHUB_TOKEN", "PGPASSWORD", "MYSQL_PWD", "GH_PAT", "STRIPE_KEY", "DB_PASS")
    }
    plain = {
        "MAX_TOKENS": "100000",
        "PWD": "/home/somebody/project",
        "SSL_KEY": "/etc/ssl/private.pem",
        "SORT_KEY": "created_at",
        "LANG": "en_US.UTF-8-and-more",
    }
    redactor.register_variables(secrets | plain)
    for value in secrets.values():
        assert value not in redactor.text(f"it printed {value} at the end")
    for value in plain.values():
        assert redactor.text(f"it printed {value} at the end") == f"it printed {value} at the end"
