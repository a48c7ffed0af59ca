import fcntl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.adapters import git_worktrees
from counterfoil.core.errors import GitFailed, RepositoryRefused

ANOTHER_PROCESS = """
import os, sys
from pathlib import Path
from counterfoil.adapters.git import open_repository

root, folder, name, commit = sys.argv[1:]
workspace = open_repository(Path(root), worktree_folder=Path(folder))
for number in range(5):
    workspace.add_worktree(Path(folder, f"{name}{number}"), commit)
"""


def test_a_worktree_stands_detached_at_exactly_the_commit(repo):
    base = repo.head
    repo.commit({"a.txt": "later\n"})
    workspace = repo.open()
    before = workspace.fingerprint()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, base)
    assert repo.git("rev-parse", "HEAD", cwd=path) == base
    assert (path / "a.txt").read_text() == "one\n"
    assert repo.git("status", "--porcelain", cwd=path) == ""
    assert "locked" not in repo.git("worktree", "list", "--porcelain")
    assert workspace.worktrees() == [repo.root, path]
    assert workspace.fingerprint() == before


def test_forty_parallel_adds_all_succeed(repo):
    workspace = repo.open()
    paths = [repo.worktrees / f"w{number}" for number in range(40)]
    with ThreadPoolExecutor(40) as pool:
        list(pool.map(lambda path: workspace.add_worktree(path, repo.head), paths))
    assert sorted(workspace.worktrees()[1:]) == sorted(paths)
    assert all((path / "a.txt").read_text() == "one\n" for path in paths)
    with ThreadPoolExecutor(40) as pool:
        list(pool.map(workspace.remove_worktree, paths))
    assert workspace.worktrees() == [repo.root]


def test_processes_that_add_at_the_same_time_wait_for_one_another(repo):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", ANOTHER_PROCESS, repo.root, repo.worktrees, name, repo.head],
            env=repo.env,
        )
        for name in ("x", "y", "z")
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert len(repo.open().worktrees()) == 16


def test_a_lock_held_elsewhere_is_told_after_a_while(repo, monkeypatch):
    monkeypatch.setattr(git_worktrees, "_LOCK_WAIT_SECONDS", 0.05)
    locks = repo.root.parent / "locks"
    workspace = repo.open(lock_folder=locks)
    workspace.add_worktree(repo.worktrees / "w", repo.head)
    (lock,) = locks.iterdir()
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GitFailed, match="has held"):
            workspace.add_worktree(repo.worktrees / "v", repo.head)
    workspace.add_worktree(repo.worktrees / "v", repo.head)


@pytest.mark.parametrize("name", ["with space/ü — 文/w", "x" * 120 + "/" + "y" * 120, "a'b\"c$d"])
def test_odd_paths_work(make_repo, name):
    repo = make_repo("répo with space")
    workspace = repo.open()
    path = repo.worktrees / name
    workspace.add_worktree(path, repo.head)
    (path / "new.txt").write_text("n\n")
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    assert [change.path for change in found.files] == ["new.txt"]
    assert path in workspace.worktrees()
    workspace.remove_worktree(path)
    assert not path.exists()
    assert workspace.worktrees() == [repo.root]


@pytest.mark.parametrize("locked", [False, True])
def test_a_registered_worktree_whose_folder_is_missing_is_made_again(repo, locked):
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    if locked:
        repo.git("worktree", "lock", str(path))
    subprocess.run(["rm", "-rf", path], check=True)
    later = repo.commit({"a.txt": "later\n"})
    workspace.add_worktree(path, later)
    assert (path / "a.txt").read_text() == "later\n"
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


def test_adding_leaves_missing_worktrees_of_other_people_registered(repo, tmp_path):
    unplugged = tmp_path / "unplugged"
    repo.git("worktree", "add", "-q", str(unplugged), "-b", "theirs")
    unplugged.rename(tmp_path / "elsewhere")
    workspace = repo.open()
    workspace.add_worktree(repo.worktrees / "w", repo.head)
    workspace.remove_worktree(repo.worktrees / "w")
    assert workspace.worktrees() == [repo.root, unplugged]


def test_an_empty_folder_is_used_and_a_full_one_is_left_alone(repo):
    workspace = repo.open()
    empty, full = repo.worktrees / "empty", repo.worktrees / "full"
    empty.mkdir(parents=True)
    workspace.add_worktree(empty, repo.head)
    assert (empty / "a.txt").exists()
    repo.write("precious", "p\n", cwd=full)
    with pytest.raises(GitFailed, match="in the way"):
        workspace.add_worktree(full, repo.head)
    assert (full / "precious").read_text() == "p\n"
    assert full not in workspace.worktrees()


def test_a_half_made_worktree_is_finished(repo):
    path = repo.worktrees / "w"
    reason = f"--reason={git_worktrees.BEING_MADE}"
    repo.git(
        "worktree", "add", "-q", "--no-checkout", "--lock", reason, "--detach", str(path), "HEAD"
    )
    (path / "a.txt").write_text("half writ")
    (repo.root / ".git" / "worktrees" / "w" / "index.lock").write_text("")
    repo.open().add_worktree(path, repo.head)
    assert (path / "a.txt").read_text() == "one\n"
    assert repo.git("status", "--porcelain", cwd=path) == ""
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


def test_a_finished_worktree_is_taken_as_it_is_unless_there_is_work_in_it(repo):
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    workspace.add_worktree(path, repo.head)
    (path / "new.txt").write_text("work\n")
    with pytest.raises(GitFailed, match="work in it"):
        workspace.add_worktree(path, repo.head)
    assert (path / "new.txt").read_text() == "work\n"


def test_a_failed_checkout_leaves_nothing_behind(repo):
    repo.commit({".gitattributes": "*.bin filter=lost\n", "x.bin": "x\n"})
    repo.git("config", "filter.lost.smudge", "/nonexistent/smudge")
    repo.git("config", "filter.lost.required", "true")
    workspace = repo.open()
    path, empty = repo.worktrees / "w", repo.worktrees / "empty"
    empty.mkdir(parents=True)
    for place in (path, empty):
        with pytest.raises(GitFailed, match="git reset failed"):
            workspace.add_worktree(place, repo.head)
    assert not path.exists()
    assert list(empty.iterdir()) == []
    assert workspace.worktrees() == [repo.root]


def test_an_unknown_commit_leaves_nothing_behind(repo):
    workspace = repo.open()
    for commit in ("f" * 40, "no-such-branch"):
        with pytest.raises(GitFailed):
            workspace.add_worktree(repo.worktrees / "w", commit)
    assert not (repo.worktrees / "w").exists()
    assert workspace.worktrees() == [repo.root]


def test_the_hooks_of_the_repository_do_not_run(repo, tmp_path):
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-merge"):
        hook = repo.write(f".git/hooks/{name}", f"#!/bin/sh\ntouch {tmp_path}/ran\nsleep 60\n")
        hook.chmod(0o755)
    workspace = repo.open(timeout_seconds=30)
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    (path / "new.txt").write_text("n\n")
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    assert workspace.move_ref("refs/heads/other", found.commit, None)
    workspace.land("main", found.commit, "m")
    workspace.remove_worktree(path)
    assert not (tmp_path / "ran").exists()


def test_line_ends_are_those_of_the_repositorys_settings(repo):
    repo.git("config", "core.autocrlf", "true")
    repo.git("config", "core.safecrlf", "true")
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    assert (path / "a.txt").read_bytes() == b"one\r\n"
    unchanged = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    assert unchanged.empty
    (path / "a.txt").write_bytes(b"one\nmixed\r\n")
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    assert repo.git("cat-file", "blob", f"{found.commit}:a.txt") == "one\nmixed"


def test_lfs_may_be_told_to_skip_its_downloads(repo):
    repo.commit({".gitattributes": "*.bin filter=echo\n", "x.bin": "pointer\n"})
    repo.git("config", "filter.echo.smudge", 'cat; echo "skip=$GIT_LFS_SKIP_SMUDGE"')
    workspace = repo.open(env={**repo.env, "GIT_LFS_SKIP_SMUDGE": "1"})
    workspace.add_worktree(repo.worktrees / "w", repo.head)
    assert (repo.worktrees / "w" / "x.bin").read_text() == "pointer\nskip=1\n"


def test_removing_takes_damaged_dirty_locked_and_missing_worktrees(repo):
    workspace = repo.open()
    paths = {name: repo.worktrees / name for name in ("dirty", "locked", "gone", "damaged")}
    for path in paths.values():
        workspace.add_worktree(path, repo.head)
    repo.write("deep/new.txt", "n\n", cwd=paths["dirty"])
    (paths["dirty"] / "deep").chmod(0o500)
    repo.git("worktree", "lock", str(paths["locked"]))
    subprocess.run(["rm", "-rf", paths["gone"]], check=True)
    (paths["damaged"] / ".git").unlink()
    for path in paths.values():
        workspace.remove_worktree(path)
        workspace.remove_worktree(path)
        assert not path.exists()
    assert workspace.worktrees() == [repo.root]
    assert list((repo.root / ".git").glob("worktrees/*")) == []


def test_only_what_lies_below_our_folder_is_removed(repo, tmp_path):
    workspace = repo.open()
    theirs = tmp_path / "theirs"
    repo.git("worktree", "add", "-q", "--detach", str(theirs))
    repo.worktrees.mkdir()
    (repo.worktrees / "link").symlink_to(tmp_path)
    inside = [theirs, repo.root, repo.worktrees, repo.worktrees / ".." / "theirs"]
    for path in (*inside, repo.worktrees / "link" / "theirs"):
        with pytest.raises(RepositoryRefused, match="not below"):
            workspace.remove_worktree(path)
    everything = repo.open(worktree_folder=tmp_path)
    for path in (repo.root, repo.root / ".git" / "objects"):
        with pytest.raises(RepositoryRefused, match="is there"):
            everything.remove_worktree(path)
    with pytest.raises(RepositoryRefused, match="no folder for worktrees"):
        repo.open(worktree_folder=None).remove_worktree(theirs)
    repo.write("data/file", "not a worktree\n", cwd=repo.worktrees)
    with pytest.raises(RepositoryRefused, match="not a worktree"):
        workspace.remove_worktree(repo.worktrees / "data")
    assert (theirs / "a.txt").exists()
    assert (repo.worktrees / "data" / "file").exists()


def test_a_worktree_replaced_by_a_link_is_removed_without_following_it(repo, tmp_path):
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    precious = repo.write("precious/file", "p\n", cwd=tmp_path)
    subprocess.run(["rm", "-rf", path], check=True)
    path.symlink_to(precious.parent)
    with pytest.raises(GitFailed, match="gone"):
        workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    with pytest.raises(GitFailed, match="in the way"):
        workspace.add_worktree(path, repo.head)
    workspace.remove_worktree(path)
    assert not path.is_symlink()
    assert precious.read_text() == "p\n"
    assert workspace.worktrees() == [repo.root]
