import itertools
import re
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.plans.claims import claims_overlap, outside_claims


@pytest.mark.parametrize(
    ("a", "b", "meet"),
    [
        ("src/app.py", "src/app.py", True),
        ("src/app.py", "src/api.py", False),
        ("src/app.py", "./src//app.py", True),
        ("src/", "src/app.py", True),
        ("src", "src/app.py", True),
        ("src", "src2/app.py", False),
        ("src/*", "src/app.py", True),
        ("src/*", "src/app/main.py", False),
        ("src/**", "src/app/main.py", True),
        ("src/**", "src", True),
        ("src/**/test_*.py", "src/test_a.py", True),
        ("src/**/test_*.py", "src/a/b/test_a.py", True),
        ("src/**/test_*.py", "src/a/b/main.py", False),
        ("**/*.md", "docs/**", True),
        ("**/*.md", "README.md", True),
        ("**/*.md", "docs/*.txt", False),
        ("*.py", "*.txt", False),
        ("a*", "*b", True),
        ("a*c", "*b?", True),
        ("a?c", "abbc", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a]x", "[!b]x", True),
        ("[a-c]x", "[d-f]x", False),
        ("**", "anything/at/all", True),
        (".", "anything", True),
        ("src/{api,ui}/**", "src/ui/a.ts", True),
        ("src/{api,ui}/**", "src/core/a.ts", False),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/page.tsx", "app/[id]/**", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", True),
        ("src/**.py", "src/a/b.py", True),
        ("src/**.py", "src/a/b.js", False),
        ("src/*/gen/", "src/api/gen/x/y.py", True),
        ("src/*/", "src/a/b", True),
        ("[\u0000-\uffff]x", "bx", True),
        ("[a", "[a", True),
        ("src/main.py", "**/*.md", False),
        ("src/*", "src/*/main.py", False),
        ("docs", "**/*.md", True),
        (".github", ".github/workflows/ci.yml", True),
        (".github", "**/*.yml", True),
        ("api/v1.2", "api/v1.2/routes.py", True),
        ("api/v1.2/", "**/*.py", True),
    ],
)
def test_two_globs_overlap_when_one_path_may_match_both(a: str, b: str, meet: bool):
    assert claims_overlap((a,), (b,)) is meet
    assert claims_overlap((b,), (a,)) is meet


def test_no_claim_overlaps_with_nothing():
    assert not claims_overlap((), ("**",))
    assert not claims_overlap(("a",), ())
    assert claims_overlap(("a", "b"), ("c", "b"))


def test_paths_outside_the_claims_are_named_in_order():
    paths = ("src/a.py", "README.md", "src/deep/b.py", "docs/x [1].md", "setup.py")
    assert outside_claims(paths, ("src/", "docs/*.md")) == ("README.md", "setup.py")
    assert outside_claims(paths, ("*.md",)) == ("src/a.py", "src/deep/b.py", paths[3], "setup.py")
    assert outside_claims(paths, ("**",)) == ()


def test_a_path_with_glob_characters_is_only_itself():
    assert outside_claims(("app/[id]/page.tsx",), ("app/[id]/page.tsx",)) == ()
    assert outside_claims(("a*b",), ("acb",)) == ("a*b",)
    assert outside_claims(("b\udce9d",), ("b?d",)) == ()


def test_who_claims_nothing_is_outside_of_nothing():
    assert outside_claims(("a", "b"), ()) == ()


def test_many_braces_are_read_too_wide_rather_than_for_ever():
    glob = "/".join(["{a,b}"] * 30)
    assert claims_overlap((glob,), ("/".join("a" * 30),))


def test_hostile_globs_are_compared_in_polynomial_time():
    assert not claims_overlap(("*a" * 60 + "b",), ("*a" * 60 + "c",))
    assert claims_overlap(("**/a/" * 40 + "*.b",), ("**/a/" * 39 + "a/c.*",))


TOKENS = st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[!ab]"])
PARTS = (
    st.lists(TOKENS, min_size=1, max_size=2)
    .map("".join)
    .map(lambda part: "*" if part == "**" else part)
) | st.just("**")
GLOBS = st.builds(
    lambda parts, slash: "/".join(parts) + slash,
    st.lists(PARTS, min_size=1, max_size=2),
    st.sampled_from(["", "", "/"]),
)
WORDS = ["".join(w) for n in (1, 2) for w in itertools.product("abc", repeat=n)]
PATHS = ["/".join(parts) for n in (1, 2, 3) for parts in itertools.product(WORDS, repeat=n)]


def expression(glob: str) -> re.Pattern[str]:
    """An independent reading of the same rules, as a regular expression."""
    parts = glob.rstrip("/").split("/")
    below = glob.endswith("/") or not set(parts[-1]) & set("*?[")
    built = ""
    for part in parts:
        if part == "**":
            built += r"(?:/[^/]+)*"
        else:
            part = re.sub(r"\*+", "*", part).replace("[!", "[^/")
            built += "/" + part.replace("*", "[^/]*").replace("?", "[^/]")
    return re.compile(built + (r"(?:/[^/]+)*" if below else ""))


@lru_cache(maxsize=4096)
def matches(glob: str) -> set[str]:
    wanted = expression(glob)
    return {path for path in PATHS if wanted.fullmatch("/" + path)}


@settings(deadline=None, max_examples=200)
@given(GLOBS, GLOBS)
def test_overlap_agrees_with_trying_every_short_path(a: str, b: str):
    tried = bool(matches(a) & matches(b))
    found = claims_overlap((a,), (b,))
    # Brackets may be a path's own: then more may meet than these paths show.
    assert found if tried else not found or "[" in a + b


@settings(deadline=None, max_examples=60)
@given(GLOBS)
def test_outside_agrees_with_trying_every_short_path(glob: str):
    inside = matches(glob)
    assert outside_claims(PATHS, (glob,)) == tuple(path for path in PATHS if path not in inside)
