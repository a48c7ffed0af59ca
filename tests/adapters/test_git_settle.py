import subprocess

import pytest

from counterfoil.core.errors import GitFailed, RepositoryRefused


@pytest.fixture
def path(repo):
    repo.commit({".gitignore": "build/\n"})
    repo.open().add_worktree(repo.worktrees / "w", repo.head)
    return repo.worktrees / "w"


def assert_settled(repo, path, commit):
    assert repo.git("rev-parse", "HEAD", cwd=path) == commit
    assert repo.git("branch", "--show-current", cwd=path) == ""
    assert repo.git("status", "--porcelain", cwd=path) == ""
    assert repo.open().harvest(path, commit, "refs/counterfoil/check", "m").notes == ()


def test_work_goes_and_ignored_files_stay(repo, path):
    base = repo.head
    repo.write("build/out.o", "o\n", cwd=path)
    repo.write("new/x.txt", "x\n", cwd=path)
    repo.write("a.txt", "changed\n", cwd=path)
    repo.git("init", "-q", str(path / "inner"))
    repo.write("inner/y.txt", "y\n", cwd=path)
    repo.open().settle(path, base)
    assert_settled(repo, path, base)
    assert (path / "build" / "out.o").exists()
    assert not (path / "new").exists()
    assert not (path / "inner").exists()


def test_the_branch_that_the_agent_was_on_does_not_move(repo, path):
    base = repo.head
    repo.git("switch", "-q", "-c", "agents-own", cwd=path)
    own = repo.commit({"a.txt": "agent\n"}, cwd=path)
    repo.open().settle(path, base)
    assert_settled(repo, path, base)
    assert repo.git("rev-parse", "agents-own") == own


def test_it_goes_forward_to_a_merged_commit_with_files_in_the_way(repo, path):
    later = repo.commit({"new.txt": "merged\n"})
    repo.write("new.txt", "in the way\n", cwd=path)
    repo.open().settle(path, later)
    assert_settled(repo, path, later)
    assert (path / "new.txt").read_text() == "merged\n"


def test_what_an_agent_left_broken_is_mended(repo, path):
    base = repo.head
    admin = repo.root / ".git" / "worktrees" / "w"
    repo.git("switch", "-q", "-c", "side", cwd=path)
    repo.commit({"a.txt": "side\n"}, cwd=path)
    repo.git("checkout", "-q", "--detach", base, cwd=path)
    repo.commit({"a.txt": "here\n"}, cwd=path)
    subprocess.run(["git", "rebase", "-q", "side"], cwd=path, env=repo.env, capture_output=True)
    assert (admin / "rebase-merge").is_dir()
    (admin / "index.lock").write_text("")
    (path / ".git").unlink()
    repo.git("init", "-q", cwd=path)
    repo.open().settle(path, base)
    assert_settled(repo, path, base)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_hidden_changes_go_too(repo, path, flag):
    repo.git("update-index", flag, "a.txt", cwd=path)
    repo.write("a.txt", "hidden\n", cwd=path)
    repo.open().settle(path, repo.head)
    assert (path / "a.txt").read_text() == "one\n"


def test_a_damaged_index_is_made_again(repo, path):
    (repo.root / ".git" / "worktrees" / "w" / "index").write_bytes(b"garbage")
    repo.write("a.txt", "changed\n", cwd=path)
    repo.open().settle(path, repo.head)
    assert_settled(repo, path, repo.head)
    assert (path / "a.txt").read_text() == "one\n"


def test_only_a_living_worktree_of_ours_is_settled(repo, path):
    workspace = repo.open()
    before = workspace.fingerprint()
    for other in (repo.root, repo.worktrees, repo.root.parent):
        with pytest.raises(RepositoryRefused):
            workspace.settle(other, repo.head)
    with pytest.raises(GitFailed, match="is gone"):
        workspace.settle(repo.worktrees / "nowhere", repo.head)
    plain = repo.write("plain/file", "f\n", cwd=repo.worktrees)
    with pytest.raises(GitFailed, match="no longer registered"):
        workspace.settle(plain.parent, repo.head)
    with pytest.raises(GitFailed, match="no commit"):
        workspace.settle(path, "nope")
    assert plain.exists()
    assert workspace.fingerprint() == before
