import subprocess
from pathlib import Path

import pytest

from counterfoil.adapters.git import open_repository
from counterfoil.adapters.git_command import GitCommand, child_environment
from counterfoil.core.errors import GitFailed, RepositoryRefused


def test_a_folder_below_the_top_level_finds_the_repository(repo):
    repo.commit({"deep/er/c.txt": "3\n"})
    workspace = open_repository(repo.root / "deep" / "er", env=repo.env)
    assert workspace.root == repo.root
    head = workspace.head()
    assert (head.sha, head.branch, head.dirty) == (repo.head, "main", False)


def test_a_detached_or_dirty_checkout_is_told_not_refused(repo):
    repo.git("checkout", "-q", "--detach")
    repo.write("a.txt", "changed\n")
    head = repo.open().head()
    assert (head.sha, head.branch, head.dirty) == (repo.head, None, True)
    repo.git("checkout", "-q", "a.txt")
    assert not repo.open().head().dirty
    repo.write("new.txt", "tasks would not see it\n")
    assert repo.open().head().dirty


def test_what_is_no_repository_is_refused_with_the_way_out(tmp_path, git_env):
    git_env["GIT_CEILING_DIRECTORIES"] = str(tmp_path)
    folder = tmp_path / "plain"
    folder.mkdir()
    with pytest.raises(RepositoryRefused, match="not in a git repository") as refused:
        open_repository(folder, env=git_env)
    assert "git init" in refused.value.hint
    with pytest.raises(RepositoryRefused, match="not a folder"):
        open_repository(tmp_path / "nowhere", env=git_env)


def test_a_bare_repository_is_refused_but_its_worktree_is_not(repo, tmp_path):
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.root), str(bare))
    with pytest.raises(RepositoryRefused, match="bare") as refused:
        open_repository(bare, env=repo.env)
    assert "worktree" in refused.value.hint
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "main", cwd=bare)
    assert open_repository(tmp_path / "linked", env=repo.env).head().branch == "main"


def test_an_unborn_branch_is_refused(tmp_path, git_env, repo):
    repo.git("init", "-q", str(tmp_path / "unborn"))
    with pytest.raises(RepositoryRefused, match="no commit") as refused:
        open_repository(tmp_path / "unborn", env=git_env)
    assert "git commit" in refused.value.hint
    workspace = repo.open()
    repo.git("checkout", "-q", "--orphan", "fresh")
    with pytest.raises(RepositoryRefused, match="no commit"):
        workspace.head()


def test_the_inside_of_a_git_folder_is_refused(repo):
    with pytest.raises(RepositoryRefused, match=r"inside a \.git folder"):
        open_repository(repo.root / ".git", env=repo.env)


def test_a_damaged_repository_is_refused_with_what_git_said(repo):
    (repo.root / ".git" / "config").write_text("[broken\n")
    with pytest.raises(RepositoryRefused, match="bad config"):
        repo.open()


def test_a_missing_git_is_refused_by_name(repo, tmp_path):
    with pytest.raises(RepositoryRefused, match="not installed") as refused:
        repo.open(env={**repo.env, "PATH": str(tmp_path / "home")})
    assert "2.38" in refused.value.hint


def test_an_old_git_is_refused_by_name(repo, tmp_path):
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'git version 2.37.9 (Apple Git-1)'\n")
    fake.chmod(0o755)
    with pytest.raises(RepositoryRefused, match=r"2\.37\.9.*too old"):
        repo.open(env={**repo.env, "PATH": f"{fake.parent}:{repo.env['PATH']}"})


def test_variables_of_another_repository_do_not_leak_in(repo, make_repo):
    other = make_repo("other", {"x": "of the other\n"})
    leaking = {
        **repo.env,
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": str(other.root / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other.root / ".git" / "objects"),
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
    }
    before = other.open().fingerprint()
    workspace = repo.open(env=leaking)
    assert workspace.root == repo.root
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    (path / "new.txt").write_text("n\n")
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    assert [change.path for change in found.files] == ["new.txt"]
    assert other.open().fingerprint() == before
    assert other.git("for-each-ref", "refs/counterfoil") == ""


def test_a_child_environment_keeps_the_person_and_drops_the_repository(repo):
    base = {
        "PATH": "/bin",
        "LANG": "de_DE.UTF-8",
        "GIT_DIR": "/elsewhere",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_AUTHOR_NAME": "Grace",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_TERMINAL_PROMPT": "1",
    }
    child = child_environment(base)
    assert not {"GIT_DIR", "GIT_INDEX_FILE"} & child.keys()
    assert "core.bare" not in child.values()
    assert (child["GIT_AUTHOR_NAME"], child["GIT_LFS_SKIP_SMUDGE"]) == ("Grace", "1")
    assert (child["GIT_TERMINAL_PROMPT"], child["GIT_EDITOR"]) == ("0", "true")
    assert child["LANG"] == "de_DE.UTF-8"
    assert "LC_ALL" not in child
    # The repository says who commits, so nothing is added.
    assert "GIT_COMMITTER_NAME" not in repo.open().child_environment(base)


def test_a_missing_identity_is_ours_for_us_and_for_agents(repo):
    repo.git("config", "--remove-section", "user")
    repo.git("config", "user.useConfigOnly", "true")
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    repo.write("a.txt", "changed\n", cwd=path)
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "kept")
    said = repo.git("show", "-s", "--format=%an <%ae> %cn <%ce> %at %s", found.commit)
    ours = "Counterfoil <counterfoil@localhost>"
    assert said == f"{ours} {ours} 86401 kept"
    env = workspace.child_environment(repo.env)
    subprocess.run(["git", "commit", "-qam", "agent"], cwd=path, env=env, check=True)
    assert repo.git("log", "-1", "--format=%an %cn", cwd=path) == "Counterfoil Counterfoil"
    assert workspace.land("main", found.commit, "m") == found.commit


def test_a_part_of_an_identity_is_completed_and_never_overruled(repo):
    repo.git("config", "--unset", "user.email")
    repo.git("config", "author.email", "author@example.org")
    env = repo.open(env={**repo.env, "GIT_COMMITTER_NAME": "Grace"}).child_environment(repo.env)
    assert env["GIT_COMMITTER_EMAIL"] == "counterfoil@localhost"
    assert not {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME"} & env.keys()


def test_signing_with_a_broken_gpg_stops_neither_us_nor_agents(repo):
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "/bin/false")
    workspace = repo.open()
    path = repo.worktrees / "w"
    workspace.add_worktree(path, repo.head)
    repo.write("a.txt", "changed\n", cwd=path)
    env = workspace.child_environment(repo.env)
    subprocess.run(["git", "commit", "-qam", "agent"], cwd=path, env=env, check=True)
    found = workspace.harvest(path, repo.head, "refs/counterfoil/x", "m")
    repo.write("c.txt", "3\n")
    repo.git("-c", "commit.gpgSign=false", "commit", "-q", "--allow-empty", "-m", "meanwhile")
    assert workspace.land("main", found.commit, "merge") == repo.head


def test_a_hanging_filter_is_ended_at_the_deadline(repo):
    repo.git("config", "filter.slow.clean", "sleep 60")
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.write("x.slow", "x\n")
    git = GitCommand(repo.root, child_environment(repo.env), timeout_seconds=0.5)
    with pytest.raises(GitFailed, match=r"git add did not end within 0\.5 s"):
        git.run("add", "--all")
    assert not (repo.root / ".git" / "index.lock").exists()


def test_a_failure_tells_command_exit_code_and_the_end_of_stderr(repo):
    with pytest.raises(GitFailed, match="git merge-tree failed") as failed:
        repo.open().merge("0" * 40, repo.head, "m")
    assert failed.value.details["exit_code"] == 1
    assert failed.value.details["argv"][:2] == ["git", "merge-tree"]
    assert failed.value.details["stderr"]


def test_revisions_resolve_to_full_shas_or_to_nothing(repo):
    workspace = repo.open()
    repo.git("tag", "-a", "v1", "-m", "annotated")
    assert workspace.resolve("main") == workspace.resolve("v1") == repo.head
    assert workspace.resolve(repo.head[:8]) == repo.head
    for nothing in ("nope", "", "-x", "--all", "refs/heads/nope", "a\0b", "f" * 40):
        assert workspace.resolve(nothing) is None
    assert workspace.tree_of("main") == repo.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(GitFailed, match="no commit 'nope'"):
        workspace.tree_of("nope")


def test_a_shallow_clone_works(repo, tmp_path):
    repo.commit({"a.txt": "second\n"})
    clone = tmp_path / "shallow"
    repo.git("clone", "-q", "--depth=1", f"file://{repo.root}", str(clone))
    workspace = open_repository(clone, env=repo.env, worktree_folder=repo.worktrees)
    base = workspace.head().sha
    path = repo.worktrees / "w"
    workspace.add_worktree(path, base)
    Path(path / "a.txt").write_text("third\n")
    found = workspace.harvest(path, base, "refs/counterfoil/x", "m")
    assert workspace.land("main", found.commit, "m") == found.commit
    workspace.remove_worktree(path)
