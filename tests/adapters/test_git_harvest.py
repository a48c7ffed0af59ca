import os
import subprocess
from pathlib import Path

import pytest

from counterfoil.core.errors import GitFailed
from counterfoil.ports.workspace import FileChange

REF = "refs/counterfoil/at_1"


class Attempt:
    """A worktree at the repository's HEAD, and what an agent may do in it."""

    def __init__(self, repo, name="w"):
        self.repo = repo
        self.base = repo.head
        self.workspace = repo.open()
        self.path = repo.worktrees / name
        self.workspace.add_worktree(self.path, self.base)

    def git(self, *args):
        return self.repo.git(*args, cwd=self.path)

    def write(self, name, content):
        return self.repo.write(name, content, cwd=self.path)

    def commit(self, files):
        return self.repo.commit(files, cwd=self.path)

    def harvest(self):
        return self.workspace.harvest(self.path, self.base, REF, "kept")

    def admin(self, name):
        return self.repo.root / ".git" / "worktrees" / self.path.name / name

    def content(self, commit, name):
        return self.repo.git("cat-file", "blob", f"{commit}:{name}")


@pytest.fixture
def attempt(repo):
    return Attempt(repo)


def paths(found):
    return [change.path for change in found.files]


def test_uncommitted_and_untracked_work_becomes_a_commit_on_top_of_base(attempt):
    attempt.write("a.txt", "one\nmore\n")
    attempt.write("new/c.txt", "3\n")
    (attempt.path / "b.txt").unlink()
    found = attempt.harvest()
    assert found.files == (
        FileChange("a.txt", 1, 0),
        FileChange("b.txt", 0, 1),
        FileChange("new/c.txt", 1, 0),
    )
    assert (found.insertions, found.deletions, found.empty, found.notes) == (2, 1, False, ())
    assert found.base == found.head == attempt.base
    assert attempt.repo.git("rev-parse", REF, f"{REF}^", f"{REF}^{{tree}}").split() == [
        found.commit,
        attempt.base,
        found.tree,
    ]


def test_files_and_index_of_the_worktree_stay_as_they_were(attempt):
    attempt.write("a.txt", "staged\n")
    attempt.git("add", "a.txt")
    attempt.write("a.txt", "not staged\n")
    attempt.write("new.txt", "n\n")
    index = attempt.admin("index").read_bytes()
    status = attempt.git("--no-optional-locks", "status", "--porcelain")
    found = attempt.harvest()
    assert attempt.content(found.commit, "a.txt") == "not staged"
    assert attempt.admin("index").read_bytes() == index
    assert attempt.git("status", "--porcelain") == status
    assert attempt.git("rev-parse", "HEAD") == attempt.base


def test_work_that_the_agent_committed_is_its_own_commit(attempt):
    head = attempt.commit({"a.txt": "agent\n"})
    found = attempt.harvest()
    assert found.commit == found.head == head
    assert paths(found) == ["a.txt"]
    assert found.notes == ()


def test_committed_and_uncommitted_work_is_one_delta_on_top_of_the_agents_head(attempt):
    head = attempt.commit({"a.txt": "agent\n"})
    attempt.write("b.txt", "more\n")
    found = attempt.harvest()
    assert attempt.repo.git("rev-parse", f"{found.commit}^") == found.head == head
    assert paths(found) == ["a.txt", "b.txt"]


def test_nothing_done_is_empty_and_its_commit_is_the_base(attempt):
    found = attempt.harvest()
    assert found.empty
    assert (found.commit, found.files) == (attempt.base, ())
    assert attempt.workspace.resolve(REF) == attempt.base


def test_work_that_was_committed_and_undone_is_empty_but_kept(attempt):
    attempt.commit({"a.txt": "agent\n"})
    head = attempt.commit({"a.txt": "one\n"})
    found = attempt.harvest()
    assert found.empty
    assert found.commit == attempt.base
    assert attempt.workspace.resolve(REF + "-head") == head


def test_a_head_that_left_the_base_is_noted_and_pinned(attempt):
    attempt.git("checkout", "-q", "--orphan", "elsewhere")
    foreign = attempt.commit({"c.txt": "3\n"})
    found = attempt.harvest()
    assert found.head == foreign
    assert any(note.startswith(f"HEAD moved to {foreign}") for note in found.notes)
    assert attempt.repo.git("rev-parse", f"{found.commit}^") == attempt.base
    assert attempt.workspace.resolve(REF + "-head") == foreign
    assert paths(found) == ["c.txt"]


def test_an_amended_base_is_put_back_on_the_base(attempt):
    attempt.write("a.txt", "amended\n")
    attempt.git("commit", "-qa", "--amend", "-m", "rewritten")
    found = attempt.harvest()
    assert attempt.repo.git("rev-parse", f"{found.commit}^") == attempt.base
    assert paths(found) == ["a.txt"]


def test_a_switched_branch_is_noted(attempt):
    attempt.git("switch", "-q", "-c", "agents/own")
    head = attempt.commit({"a.txt": "agent\n"})
    found = attempt.harvest()
    assert found.commit == head
    assert found.notes == ("HEAD was on the branch agents/own.",)


def test_a_head_without_a_commit_is_noted(attempt):
    attempt.git("checkout", "-q", "--orphan", "empty")
    attempt.write("a.txt", "agent\n")
    found = attempt.harvest()
    assert (found.head, paths(found)) == (attempt.base, ["a.txt"])
    assert "The worktree's HEAD named no commit." in found.notes


def test_left_over_locks_are_removed_and_noted(attempt):
    attempt.write("a.txt", "agent\n")
    attempt.admin("index.lock").write_text("")
    found = attempt.harvest()
    assert found.notes == ("A stale index.lock was removed.",)
    assert paths(found) == ["a.txt"]
    attempt.git("add", "-A")


@pytest.mark.parametrize("damage", ["garbage", "empty", "missing"])
def test_a_damaged_index_is_replaced_by_heads_tree(attempt, damage):
    attempt.write(".gitignore", "*.log\n")
    attempt.write("forced.log", "kept although ignored\n")
    attempt.git("add", "-f", "forced.log")
    attempt.commit({"a.txt": "agent\n"})
    attempt.write("b.txt", "more\n")
    index = attempt.admin("index")
    if damage == "missing":
        index.unlink()
    else:
        index.write_bytes(b"garbage" * 10 if damage == "garbage" else b"")
    found = attempt.harvest()
    assert paths(found) == [".gitignore", "a.txt", "b.txt", "forced.log"]
    assert any("index was missing or damaged" in note for note in found.notes)


def test_a_worktree_that_is_gone_is_told_in_a_sentence(attempt):
    subprocess.run(["rm", "-rf", attempt.path], check=True)
    with pytest.raises(GitFailed, match=r"The worktree .*/w is gone"):
        attempt.harvest()
    attempt.path.mkdir()
    with pytest.raises(GitFailed, match=r"was emptied"):
        attempt.harvest()


def test_a_replaced_git_folder_does_not_redirect_the_harvest(attempt):
    (attempt.path / ".git").unlink()
    attempt.git("init", "-q")
    attempt.write("a.txt", "agent\n")
    found = attempt.harvest()
    assert paths(found) == ["a.txt"]
    assert found.notes == ("The worktree's .git file was removed or replaced.",)


def test_a_worktree_that_is_no_longer_registered_is_still_harvested(attempt):
    attempt.write("a.txt", "agent\n")
    subprocess.run(["rm", "-rf", attempt.admin(".")], check=True)
    main = attempt.workspace.fingerprint()
    found = attempt.harvest()
    assert paths(found) == ["a.txt"]
    assert any("no longer registered" in note for note in found.notes)
    assert attempt.workspace.fingerprint() == main


def test_a_base_that_is_not_there_is_told(attempt):
    for base in ("f" * 40, "nope"):
        with pytest.raises(GitFailed, match=f"no commit '{base}'"):
            attempt.workspace.harvest(attempt.path, base, REF, "m")


def test_ten_thousand_files_are_one_delta(attempt):
    folder = attempt.path / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"f{number}").write_text(f"{number}\n")
    found = attempt.harvest()
    assert len(found.files) == found.insertions == 10_000


def test_odd_names_binary_files_and_modes_are_told_truthfully(attempt):
    attempt.write("bin", b"\0\1\2")
    attempt.write("tab\tnew\nline", "x\n")
    attempt.write(":colon", "x\n")
    Path(os.fsdecode(os.fsencode(attempt.path) + b"/b\xe9d")).write_text("x\ny\n")
    (attempt.path / "b.txt").chmod(0o755)
    attempt.git("mv", "a.txt", "moved.txt")
    found = attempt.harvest()
    assert sorted(found.files, key=lambda change: change.path) == [
        FileChange(":colon", 1, 0),
        FileChange("a.txt", 0, 1),
        FileChange("b.txt", 0, 0),
        FileChange("bin", None, None),
        FileChange("b\udce9d", 2, 0),
        FileChange("moved.txt", 1, 0),
        FileChange("tab\tnew\nline", 1, 0),
    ]


def test_links_out_of_the_tree_are_kept_as_links(attempt, tmp_path):
    secret = attempt.repo.write("outside/secret", "s3cret\n", cwd=tmp_path)
    (attempt.path / "link").symlink_to(secret)
    (attempt.path / "folder").symlink_to(secret.parent)
    found = attempt.harvest()
    assert paths(found) == ["folder", "link"]
    assert attempt.content(found.commit, "link") == str(secret)


def test_ignored_files_are_not_work(attempt):
    attempt.write(".gitignore", "build/\n")
    attempt.write("build/out.o", "o\n")
    assert paths(attempt.harvest()) == [".gitignore"]


def test_a_repository_inside_is_left_out_noted_and_its_commits_are_kept(attempt):
    inner = attempt.path / "vendor" / "inner"
    inner.mkdir(parents=True)
    attempt.repo.git("init", "-q", cwd=inner)
    attempt.repo.git("config", "user.name", "x", cwd=inner)
    attempt.repo.git("config", "user.email", "x@y", cwd=inner)
    head = attempt.repo.commit({"x": "x\n"}, cwd=inner)
    attempt.repo.git("init", "-q", str(attempt.path / "hollow"))
    attempt.write("hollow/y", "y\n")
    attempt.write("a.txt", "agent\n")
    found = attempt.harvest()
    assert paths(found) == ["a.txt"]
    assert attempt.workspace.resolve(REF + "-link-1") == head
    notes = "\n".join(found.notes)
    assert "vendor/inner is a repository of its own" in notes
    assert "hollow" in notes


def test_a_moved_submodule_is_seen_and_its_commit_outlives_the_worktree(make_repo):
    library = make_repo("library", {"lib.c": "1\n"})
    repo = make_repo()
    protocol = "protocol.file.allow=always"
    repo.git("-c", protocol, "submodule", "--quiet", "add", str(library.root), "lib")
    repo.git("commit", "-q", "-m", "with a submodule")
    attempt = Attempt(repo)
    assert attempt.harvest().empty
    attempt.git("-c", protocol, "submodule", "--quiet", "update", "--init")
    assert attempt.harvest().empty
    inner = attempt.path / "lib"
    repo.git("config", "user.email", "a@b", cwd=inner)
    repo.git("config", "user.name", "a", cwd=inner)
    moved = repo.commit({"lib.c": "2\n"}, cwd=inner)
    found = attempt.harvest()
    assert paths(found) == ["lib"]
    assert repo.git("rev-parse", f"{found.commit}:lib") == moved
    attempt.workspace.remove_worktree(attempt.path)
    assert repo.git("cat-file", "blob", f"{moved}:lib.c") == "2"
    assert isinstance(attempt.workspace.patch(attempt.base, found.commit), bytes)


def test_a_change_as_young_as_the_index_is_not_missed(attempt):
    # Same size and time stamps: only the index's own age tells git to look into the file.
    attempt.repo.git("config", "core.trustctime", "false")
    attempt.repo.git("config", "core.checkStat", "minimal")
    file, index = attempt.path / "a.txt", attempt.admin("index")
    stamp = (file.stat().st_mtime_ns // 10**9 - 100) * 10**9
    os.utime(file, ns=(stamp, stamp))
    attempt.git("update-index", "--refresh")
    os.utime(index, ns=(stamp, stamp))
    file.write_text("ONE\n")
    os.utime(file, ns=(stamp, stamp))
    assert paths(attempt.harvest()) == ["a.txt"]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_changes_hidden_in_the_index_are_found(attempt, flag):
    attempt.git("update-index", flag, "a.txt")
    attempt.write("a.txt", "hidden\n")
    found = attempt.harvest()
    assert paths(found) == ["a.txt"]
    assert any("hidden in the index" in note for note in found.notes)


def test_files_outside_a_sparse_checkout_are_not_deletions(attempt):
    attempt.git("sparse-checkout", "set", "--no-cone", "/a.txt")
    assert not (attempt.path / "b.txt").exists()
    attempt.write("a.txt", "agent\n")
    attempt.write("other/new.txt", "n\n")
    assert paths(attempt.harvest()) == ["a.txt", "other/new.txt"]


def test_an_unfinished_merge_is_noted_and_taken_as_it_stands(attempt):
    attempt.git("switch", "-q", "-c", "side")
    attempt.commit({"a.txt": "side\n"})
    attempt.git("checkout", "-q", "--detach", attempt.base)
    attempt.commit({"a.txt": "here\n"})
    subprocess.run(["git", "merge", "-q", "side"], cwd=attempt.path, env=attempt.repo.env)
    found = attempt.harvest()
    assert "The worktree was left in the middle of a merge." in found.notes
    assert "<<<<<<<" in attempt.content(found.commit, "a.txt")


def test_a_file_that_cannot_be_read_is_noted_and_the_rest_is_kept(attempt):
    locked = attempt.write("locked.txt", "l\n")
    locked.chmod(0)
    if os.access(locked, os.R_OK):
        pytest.skip("this user reads every file")
    attempt.write("new.txt", "n\n")
    found = attempt.harvest()
    assert paths(found) == ["new.txt"]
    assert any("locked.txt" in note for note in found.notes)


def test_harvesting_twice_gives_the_same_tree_and_moves_the_pin(attempt):
    attempt.write("a.txt", "first\n")
    first = attempt.harvest()
    assert attempt.harvest() == first
    attempt.write("a.txt", "second\n")
    second = attempt.harvest()
    assert attempt.workspace.resolve(REF) == second.commit != first.commit
