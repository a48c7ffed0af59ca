import os
from pathlib import Path

import pytest

from counterfoil.adapters import git_fingerprint


def changed(before, after):
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def test_a_clean_checkout_has_no_files_and_looking_rewrites_nothing(repo):
    workspace = repo.open()
    os.utime(repo.root / "a.txt")
    index = repo.root / ".git" / "index"
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    found = workspace.fingerprint()
    assert found.keys() == {"HEAD", "index", "config", "branches", "stash"}
    assert found["HEAD"] == "ref: refs/heads/main"
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    assert workspace.fingerprint() == found


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda repo: repo.write("a.txt", "x\n"), {"file:a.txt"}),
        (lambda repo: repo.write("ü\n/new.txt", "x\n"), {"file:ü\n/new.txt"}),
        (lambda repo: (repo.root / "b.txt").unlink(), {"file:b.txt"}),
        (lambda repo: (repo.root / "dirty.txt").write_text("DIRTY\n"), {"file:dirty.txt"}),
        (lambda repo: (repo.root / "dirty.txt").chmod(0o755), {"file:dirty.txt"}),
        (lambda repo: (repo.root / "dirty.txt").unlink(), {"file:dirty.txt"}),
        (lambda repo: repo.git("mv", "a.txt", "c.txt"), {"index", "file:a.txt", "file:c.txt"}),
        (lambda repo: repo.git("branch", "agents-own"), {"branches"}),
        (lambda repo: repo.git("config", "user.name", "bot"), {"config"}),
        (lambda repo: (repo.root / "link").symlink_to("/etc/hostname"), {"file:link"}),
        (lambda repo: repo.git("switch", "-q", "--detach"), {"HEAD"}),
    ],
)
def test_what_was_touched_is_what_differs(repo, act, expected):
    repo.write("dirty.txt", "dirty\n")
    workspace = repo.open()
    before = workspace.fingerprint()
    act(repo)
    assert changed(before, workspace.fingerprint()) == expected


def test_a_commit_and_a_stash_show_in_head_index_and_refs(repo):
    workspace = repo.open()
    before = workspace.fingerprint()
    repo.commit({"a.txt": "x\n"})
    assert changed(before, workspace.fingerprint()) == {"branches", "index"}
    before = workspace.fingerprint()
    repo.write("a.txt", "y\n")
    repo.git("stash", "-q")
    assert "stash" in changed(before, workspace.fingerprint())


def test_our_own_refs_and_ignored_files_do_not_count(repo):
    repo.commit({".gitignore": "*.log\n"})
    workspace = repo.open()
    before = workspace.fingerprint()
    repo.git("update-ref", "refs/heads/counterfoil/run_1", "HEAD")
    repo.git("update-ref", "refs/counterfoil/at_1", "HEAD")
    repo.write("x.log", "x\n")
    assert workspace.fingerprint() == before


def test_past_the_bounds_size_and_time_stand_for_the_content(repo, monkeypatch):
    monkeypatch.setattr(git_fingerprint, "_MOST_FILES", 1)
    monkeypatch.setattr(git_fingerprint, "_MOST_BYTES", 10)
    for name, text in (("1big", "x" * 11), ("2small", "x")):
        repo.write(name, text)
    found = repo.open().fingerprint()
    assert found["file:1big"].startswith("size 11 time ")
    assert found["file:2small"].startswith("size 1 time ")


def test_odd_things_in_the_checkout_are_told_without_being_read(repo):
    os.mkfifo(repo.root / "pipe")
    Path(os.fsdecode(os.fsencode(repo.root) + b"/b\xe9d")).write_text("x\n")
    repo.git("init", "-q", "inner")
    repo.write("inner/x", "x\n")
    found = repo.open().fingerprint()
    assert len(found["file:b\udce9d"]) == 64
    assert found["file:inner/"] == "folder"


def test_a_conflicted_checkout_is_told(repo):
    repo.git("switch", "-q", "-c", "side")
    repo.commit({"a.txt": "side\n"})
    repo.git("switch", "-q", "main")
    repo.commit({"a.txt": "main\n"})
    with pytest.raises(AssertionError):
        repo.git("merge", "side")
    assert "file:a.txt" in repo.open().fingerprint()
    assert repo.open().head().dirty
