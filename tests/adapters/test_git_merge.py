import subprocess

import pytest

from counterfoil.core.errors import GitFailed, RefMoved, RepositoryRefused
from counterfoil.ports.workspace import MergeConflict, Merged

BRANCH = "refs/heads/counterfoil/run_1"


@pytest.fixture
def sides(repo):
    """The repository with main ahead by ``ours``, and ``theirs`` cut from main's first commit."""
    base = repo.head
    repo.git("switch", "-q", "-c", "theirs")
    theirs = repo.commit({"b.txt": "theirs\n", "new.txt": "n\n"})
    repo.git("switch", "-q", "main")
    ours = repo.commit({"a.txt": "ours\n"})
    return repo, base, ours, theirs


def parents(repo, commit):
    return repo.git("show", "-s", "--format=%P", commit).split()


def content(repo, commit, name):
    return repo.git("cat-file", "blob", f"{commit}:{name}")


def test_a_merge_is_a_commit_of_both_and_touches_no_checkout_and_no_ref(sides):
    repo, _, ours, theirs = sides
    repo.write("a.txt", "dirty\n")
    workspace = repo.open()
    before = workspace.fingerprint()
    merged = workspace.merge(ours, theirs, "Task 1\n\nsecond paragraph")
    assert isinstance(merged, Merged)
    assert parents(repo, merged.commit) == [ours, theirs]
    assert merged.tree == workspace.tree_of(merged.commit)
    assert (content(repo, merged.commit, "a.txt"), content(repo, merged.commit, "b.txt")) == (
        "ours",
        "theirs",
    )
    assert repo.git("show", "-s", "--format=%B", merged.commit) == "Task 1\n\nsecond paragraph"
    assert workspace.fingerprint() == before


def test_a_merge_that_could_fast_forward_is_still_a_merge_commit(sides):
    repo, base, _, theirs = sides
    workspace = repo.open()
    merged = workspace.merge(base, theirs, "m")
    assert isinstance(merged, Merged)
    assert parents(repo, merged.commit) == [base, theirs]
    assert merged.tree == workspace.tree_of(theirs)
    assert workspace.merge(base, theirs, "m") == merged


def test_a_conflict_names_its_paths(sides):
    repo, base, ours, _ = sides
    repo.git("checkout", "-q", "--detach", base)
    clash = repo.commit({"a.txt": "clash\n", "ü\n.txt": "x\n", "fine.txt": "f\n"})
    repo.git("checkout", "-q", "--detach", ours)
    ours = repo.commit({"ü\n.txt": "y\n"})
    assert repo.open().merge(ours, clash, "m") == MergeConflict(("a.txt", "ü\n.txt"))


def test_what_cannot_be_merged_is_an_error_not_a_conflict(sides, repo):
    _, _, ours, _ = sides
    repo.git("checkout", "-q", "--orphan", "stranger")
    stranger = repo.commit({"s.txt": "s\n"})
    for theirs in (stranger, "f" * 40, "nope"):
        with pytest.raises(GitFailed, match="git merge-tree failed"):
            repo.open().merge(ours, theirs, "m")


def test_a_ref_moves_only_from_where_it_was_expected(sides):
    repo, base, ours, theirs = sides
    workspace = repo.open()
    assert not workspace.move_ref(BRANCH, theirs, ours)
    assert workspace.move_ref(BRANCH, base, None)
    assert not workspace.move_ref(BRANCH, theirs, None)
    assert not workspace.move_ref(BRANCH, theirs, ours)
    assert workspace.resolve(BRANCH) == base
    assert workspace.move_ref(BRANCH, theirs, base)
    assert workspace.resolve(BRANCH) == theirs


def test_a_ref_that_cannot_be_moved_for_another_reason_is_an_error(sides):
    repo, base, ours, _ = sides
    workspace = repo.open()
    assert workspace.move_ref(BRANCH, base, None)
    with pytest.raises(GitFailed, match="git update-ref failed"):
        workspace.move_ref(BRANCH + "/below", base, None)
    with pytest.raises(GitFailed):
        workspace.move_ref(BRANCH, "f" * 40, base)
    with pytest.raises(GitFailed):
        workspace.move_ref("not a ref", ours, base)
    (repo.root / ".git" / f"{BRANCH}.lock").write_text("")
    with pytest.raises(GitFailed, match="lock"):
        workspace.move_ref(BRANCH, ours, base)


def test_where_a_branch_is_checked_out_is_found(sides):
    repo, *_ = sides
    workspace = repo.open()
    elsewhere = repo.root.parent / "else where\nü"
    repo.git("worktree", "add", "-q", str(elsewhere), "theirs")
    assert workspace.checked_out_at("refs/heads/main") == repo.root
    assert workspace.checked_out_at("theirs") == elsewhere
    assert workspace.checked_out_at(BRANCH) is None
    repo.git("checkout", "-q", "--detach")
    assert workspace.checked_out_at("main") is None


def test_a_patch_rebuilds_the_tree_binary_files_included(sides, tmp_path):
    repo, base, *_ = sides
    repo.git("config", "diff.noprefix", "true")
    repo.git("config", "color.diff", "always")
    repo.git("checkout", "-q", "--detach", base)
    repo.write(".gitattributes", "*.md diff=shout\n")
    repo.git("config", "diff.shout.textconv", "tr a-z A-Z <")
    (repo.root / "link").symlink_to("a.txt")
    repo.git("mv", "b.txt", "c.txt")
    work = repo.commit({"bin": bytes(range(256)), "a.txt": "crlf\r\nno end", "x.md": "text\n"})
    patch = repo.open().patch(base, work)
    repo.git("checkout", "-q", base)
    subprocess.run(
        ["git", "apply", "--index", "-"], input=patch, cwd=repo.root, env=repo.env, check=True
    )
    assert repo.git("write-tree") == repo.git("rev-parse", f"{work}^{{tree}}")


def test_landing_on_a_branch_that_is_checked_out_nowhere_touches_no_checkout(sides):
    repo, _, ours, theirs = sides
    repo.git("switch", "-q", "--detach")
    repo.write("a.txt", "dirty\n")
    before = {**repo.open().fingerprint(), "branches": ""}
    landed = repo.open().land("main", theirs, "Land it")
    assert repo.git("rev-parse", "main") == landed
    assert parents(repo, landed) == [ours, theirs]
    assert {**repo.open().fingerprint(), "branches": ""} == before


def test_landing_fast_forwards_where_it_can_and_does_nothing_twice(sides):
    repo, base, _, theirs = sides
    repo.git("branch", "release", base)
    workspace = repo.open()
    assert workspace.land("refs/heads/release", theirs, "m") == theirs
    assert workspace.land("release", theirs, "m") == theirs
    assert workspace.land("release", base, "m") == theirs


def test_landing_on_the_branch_that_is_checked_out_moves_its_files_too(sides):
    repo, _, ours, theirs = sides
    repo.write("a.txt", "local, not in the way\n")
    repo.write("untracked.txt", "u\n")
    landed = repo.open().land("main", theirs, "Land it")
    assert parents(repo, landed) == [ours, theirs]
    assert repo.head == landed
    assert (repo.root / "b.txt").read_text() == "theirs\n"
    assert (repo.root / "a.txt").read_text() == "local, not in the way\n"
    assert repo.git("status", "--porcelain").split("\n") == ["M a.txt", "?? untracked.txt"]


@pytest.mark.parametrize("name", ["b.txt", "new.txt"])
def test_local_changes_in_the_way_stop_the_landing_and_are_named(sides, name):
    repo, _, ours, theirs = sides
    repo.write(name, "precious\n")
    workspace = repo.open()
    before = workspace.fingerprint()
    with pytest.raises(RepositoryRefused, match="stand in the way") as refused:
        workspace.land("main", theirs, "m")
    assert refused.value.details["paths"] == [name]
    assert "stash" in refused.value.hint
    assert workspace.fingerprint() == before
    assert (repo.head, (repo.root / name).read_text()) == (ours, "precious\n")


def test_a_landing_with_conflicts_changes_nothing_and_tells_how_to_do_it_by_hand(sides):
    repo, base, *_ = sides
    repo.git("checkout", "-q", "--detach", base)
    clash = repo.commit({"a.txt": "clash\n"})
    repo.git("switch", "-q", "main")
    workspace = repo.open()
    before = workspace.fingerprint()
    with pytest.raises(RepositoryRefused, match=r"conflicts with main in a\.txt") as refused:
        workspace.land("main", clash, "m")
    assert refused.value.details["paths"] == ["a.txt"]
    assert f"git merge {clash}" in refused.value.hint
    assert workspace.fingerprint() == before


def test_a_branch_that_moves_while_landing_is_told(sides, monkeypatch):
    repo, _, ours, theirs = sides
    repo.git("switch", "-q", "--detach")
    workspace = repo.open()
    monkeypatch.setattr("counterfoil.adapters.git_merge.move_ref", lambda *_: False)
    with pytest.raises(RefMoved, match="main moved"):
        workspace.land("main", theirs, "m")
    monkeypatch.undo()
    assert repo.git("rev-parse", "main") == ours

    repo.git("switch", "-q", "main")

    def commit_meanwhile(*_):
        repo.commit({"a.txt": "meanwhile\n"})
        return repo.root

    monkeypatch.setattr("counterfoil.adapters.git_merge.checked_out_at", commit_meanwhile)
    with pytest.raises(RefMoved, match="main moved"):
        workspace.land("main", theirs, "m")
    assert (repo.root / "a.txt").read_text() == "meanwhile\n"


def test_a_checkout_that_is_busy_or_gone_is_told_with_the_way_out(sides):
    repo, _, ours, theirs = sides
    workspace = repo.open()
    lock = repo.root / ".git" / "index.lock"
    lock.write_text("")
    with pytest.raises(RepositoryRefused, match=r"index\.lock"):
        workspace.land("main", theirs, "m")
    lock.unlink()
    assert repo.head == ours
    other = repo.root.parent / "other"
    repo.git("worktree", "add", "-q", str(other), "theirs")
    subprocess.run(["rm", "-rf", other], check=True)
    with pytest.raises(RepositoryRefused, match="which is gone"):
        workspace.land("theirs", ours, "m")
    with pytest.raises(RepositoryRefused, match="no branch nope"):
        workspace.land("nope", theirs, "m")
