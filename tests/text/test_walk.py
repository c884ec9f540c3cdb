"""Walking folders: what is found, what is left out, what is skipped."""

import os
import re
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from mbc_engine.errors import DataError
from mbc_engine.text import Skipped, find_files, ignore_path


def write(folder, files):
    """Files of these texts, or without one."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(files[name] if isinstance(files, dict) else "")


@pytest.fixture
def folder(tmp_path):
    names = ("b.txt", "a/z.md", "a/.hidden.txt", ".git/c.txt", "c.TXT.GZ", "picture.xyz", "README", "p.pdf.gz")
    write(tmp_path, dict.fromkeys(names, "text"))
    (tmp_path / "picture.xyz").write_bytes(b"\x89PNG\r\n\0")
    return tmp_path


def found(root, *paths, ignore=()):
    result = find_files(paths, ignore)
    return (
        [path.relative_to(root).as_posix() for path in result.files],
        [(Path(skip.source).relative_to(root).as_posix(), skip.reason) for skip in result.skipped],
    )


FOUND = ["README", "a/z.md", "b.txt", "c.TXT.GZ", "p.pdf.gz"]


def test_order_hidden_and_skipped_files(folder):
    assert found(folder, folder) == (FOUND, [("picture.xyz", "is a picture")])
    named = ["c.TXT.GZ", ".git/c.txt", "b.txt"]
    assert found(folder, folder / "c.TXT.GZ", folder / ".git", folder / "b.txt")[0] == named


def test_duplicates(folder):
    (folder / "a" / "loop").symlink_to(folder)
    (folder / "link.txt").symlink_to(folder / "b.txt")
    assert found(folder, folder, folder / "a", folder / "b.txt", folder / "a" / "..")[0] == FOUND


@pytest.mark.parametrize(("name", "ignore", "message"), [("gone", [], "gone does not exist"), ("", ["!"], "!")])
def test_what_cannot_be_walked(tmp_path, name, ignore, message):
    with pytest.raises(DataError, match=message) as caught:
        find_files([tmp_path, tmp_path / name], ignore)
    assert caught.value.hint


def test_inaccessible_paths(folder, monkeypatch):
    (folder / "broken.txt").symlink_to(folder / "nowhere.txt")
    (folder / "itself.txt").symlink_to(folder / "itself.txt")
    os.mkfifo(folder / "pipe.txt")
    (folder / "closed").mkdir()

    def guarded(path, scandir=os.scandir):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    files, skipped = found(folder, folder, ignore=("nothing",))
    assert files == FOUND
    assert dict(skipped) == {
        "broken.txt": "cannot be read: no such file or directory",
        "itself.txt": "cannot be read: too many levels of symbolic links",
        "pipe.txt": "is not a regular file",
        "closed": "cannot be read: permission denied",
        "picture.xyz": "is a picture",
    }


@pytest.fixture
def tree(tmp_path):
    """Writes files of text or patterns, and returns those that a walk finds."""

    def walk(files):
        write(tmp_path, files)
        return found(tmp_path, tmp_path)[0]

    return walk


def test_ignore(folder):
    assert found(folder, folder, ignore=("*.xyz", "*.pdf.gz", "/a/", "README", "*.gz", "*.GZ")) == (["b.txt"], [])


def test_named_files_are_not_ignored(folder):
    (folder / ".mbcignore").write_text("b.txt\na/")
    named = (folder, folder / "b.txt", folder / "a")
    assert found(folder, *named, ignore=("*.txt", "README", "p.*"))[0] == ["c.TXT.GZ", "b.txt", "a/z.md"]
    (folder / ".mbcignore").write_text("*")
    assert found(folder, folder, ignore=("!README",))[0] == ["README"]  # patterns that are given come first


def test_nested_ignore_files(tree):
    rules = {
        ".mbcignore": "# drafts\ndraft*\n!draft-good.txt\nlogs/\n/only-here.txt\nT\u00fcr.txt\n",
        "sub/.mbcignore": "!draft.txt\nsecret.md\n",
    }
    kept = ["draft-good.txt", "secret.md", "sub/draft.txt", "sub/only-here.txt"]
    left = ["draft.txt", "only-here.txt", "Tu\u0308r.txt", "logs/a.txt", "sub/deep/secret.md", "sub/deep/draft2.txt"]
    assert tree(rules | dict.fromkeys([*kept, *left], "")) == kept


def test_ignored_linked_folder(tmp_path):
    write(tmp_path, ["real/a.txt", "here/b.md"])
    (tmp_path / "here" / "link").symlink_to(tmp_path / "real")
    assert found(tmp_path, tmp_path / "here", ignore=("link/",))[0] == ["here/b.md"]


def test_bad_ignore_file(tmp_path):
    write(tmp_path, {".mbcignore": "!", "a.txt": "a"})
    files, ((name, reason),) = found(tmp_path, tmp_path)
    assert (files, name) == (["a.txt"], ".mbcignore")
    assert reason.startswith("cannot be used: ")


def test_pipe_as_ignore_file(tmp_path):
    os.mkfifo(tmp_path / ".mbcignore")
    assert find_files([tmp_path]).files == ()


def test_stop(folder):
    stop = threading.Event()
    assert find_files([folder], stop=stop) == find_files([folder])
    stop.set()
    assert find_files([folder], stop=stop).files == ()


@given(
    st.text(st.sampled_from("a .!#*?[]{}\\\\/-\n\r\t\x0b\x85\u2028\u00e9\udc80^$"), min_size=1).filter(
        lambda name: "/" not in name
    )
)
def test_ignore_path(name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        if name in (".", ".."):
            return
        file, pattern = ignore_path(path)
        ignore, below = GitIgnoreSpec.from_lines([pattern]), "below" * 20  # no name of white space is as long
        assert re.split("\r?\n", os.fsdecode(file.read_bytes())) == [pattern, ""]
        assert [ignore.check_file(own).include for own in (name, f"{name}x", f"{below}/{name}")] == [True, None, None]
        assert ignore_path(path) == (Path(folder, ".mbcignore"), None)


def test_ignore_path_appends(tmp_path):
    rules, other = tmp_path / ".mbcignore", tmp_path / "rules"
    other.write_bytes(b"\xef\xbb\xbf*.txt\r\n!a.txt")
    other.chmod(0o600)
    rules.symlink_to(other)
    assert ignore_path(tmp_path / "b.txt")[1] is None
    assert ignore_path(tmp_path / "a.txt")[1] == "/a.txt"
    assert rules.is_symlink()
    assert other.read_bytes() == b"\xef\xbb\xbf*.txt\r\n!a.txt\n/a.txt\n"
    assert other.stat().st_mode & 0o777 == 0o600


def test_unusable_rule_is_refused(tmp_path):
    rules = tmp_path / ".mbcignore"
    for written, reason in ((b"#" * (1 << 20), "is too large"), (b"[z-a]\n", "cannot be used")):
        rules.write_bytes(written)
        with pytest.raises(DataError, match=reason):
            ignore_path(tmp_path / "a.txt")
        assert rules.read_bytes() == written


NOBODY_WROTE = (
    "web/node_modules/left-pad/README.md", "env/pyvenv.cfg", "env/lib/notes.txt", "venv/lib/x.txt", "__pycache__/x.txt",
    "target/CACHEDIR.TAG", "target/debug.txt", "~$report.docx", "#a.md#", "a.md~", "poetry.lock", "package-lock.json",
    "Thumbs.db",
)  # fmt: skip


def test_what_nobody_wrote_is_left_out(tmp_path, tree):
    kept = ["a.md", "c#.txt", "lock.txt", "packages.txt"]
    assert tree([*kept, *NOBODY_WROTE]) == kept
    left_out = {Path(path).name: reason for path, reason in find_files([tmp_path]).left_out}
    assert left_out == {
        **dict.fromkeys(("env", "node_modules", "venv"), "installed software"),
        **dict.fromkeys(("__pycache__", "target"), "a cache"),
        **dict.fromkeys(("#a.md#", "a.md~", "~$report.docx"), "an unfinished or temporary file"),
        **dict.fromkeys(("package-lock.json", "poetry.lock"), "a lock file"),
        "Thumbs.db": "files of the operating system",
    }
    every = find_files([tmp_path], is_choosy=False)
    assert (every.left_out, tmp_path / "venv/lib/x.txt" in every.files) == ((), True)
    named = [tmp_path / "env", tmp_path / "web/node_modules/left-pad/README.md"]
    assert list(find_files(named).files) == [tmp_path / "env/lib/notes.txt", tmp_path / "env/pyvenv.cfg", named[1]]


def test_git_ignore_files(tmp_path, tree):
    rules = {
        ".gitignore": "*.log.txt\nbuild/\n!venv/\n",
        ".mbcignore": "!build/\n",
        "sub/.gitignore": "!b.log.txt\n/only.txt\n",
    }
    kept = ["build/kept.txt", "sub/b.log.txt", "sub/deep/only.txt", "venv/kept.txt"]
    assert tree(rules | dict.fromkeys([*kept, "a.log.txt", "sub/c.log.txt", "sub/only.txt"], "")) == kept
    left_out = [(Path(path).name, reason) for path, reason in find_files([tmp_path]).left_out]
    assert left_out == [("a.log.txt", ".gitignore"), ("c.log.txt", ".gitignore"), ("only.txt", ".gitignore")]


def test_hidden_files_of_a_repository_are_told(tmp_path, tree):
    rules = {".gitignore": ".env\n"}
    hidden = [".ci/steps.yml", ".env", ".env.example", "sub/.hidden"]
    assert tree(rules | dict.fromkeys([*hidden, "a.md"], "")) == ["a.md"]
    assert find_files([tmp_path]).left_out == ()
    (tmp_path / ".git").mkdir()
    left_out = [*find_files([tmp_path]).left_out]
    assert left_out == [(f"{tmp_path}/.ci/", "hidden"), (f"{tmp_path}/.env.example", "hidden")]
    named = find_files([tmp_path, tmp_path / ".ci", tmp_path / ".env.example"])
    assert (named.left_out, len(named.files)) == ((), 3)


def test_paths_are_absolute(folder, monkeypatch):
    (folder / "node_modules").mkdir()
    monkeypatch.chdir(folder)
    relative, absolute = find_files([Path()], ["a/"]), find_files([folder], ["a/"])
    assert relative == absolute
    assert [*relative.files, *relative.skipped, *relative.left_out]


def test_git_ignore_files_above_a_folder_of_a_repository(tmp_path, monkeypatch):
    rules = {"repo/.git/info/exclude": "secret.txt", "repo/.gitignore": "/docs/drafts/\nbuild/", ".gitignore": "*"}
    names = ["repo/docs/a.txt", "repo/docs/secret.txt", "repo/docs/drafts/b.txt", "repo/build/c.txt"]
    write(tmp_path, rules | dict.fromkeys(names, ""))
    monkeypatch.chdir(tmp_path / "repo")
    assert find_files([Path("docs")]).files == (tmp_path / "repo/docs/a.txt",)
    assert find_files([Path("build")]).files == (tmp_path / "repo/build/c.txt",)  # named although ignored
    assert find_files([Path()]).files == (tmp_path / "repo/docs/a.txt",)


def test_without_links_nothing_that_one_reaches_is_named(tmp_path, monkeypatch):
    own, outside = tmp_path.resolve() / "own", tmp_path / "outside"
    write(tmp_path.resolve(), ["own/a.txt", "own/in/b.txt", "outside/secret.txt"])
    (own / "c").symlink_to(outside)
    linked = Skipped(str(own / "c"), "is a link, which is not followed")
    walked = find_files([own], follow_links=False)
    assert (walked.files, walked.skipped) == ((own / "a.txt", own / "in/b.txt"), (linked,))

    def swapping(path, flags, opening=os.open):
        if path == str(own / "in"):  # a link takes its place at the last moment
            (own / "in").rename(tmp_path / "away")
            (own / "in").symlink_to(outside)
        return opening(path, flags)

    monkeypatch.setattr(os, "open", swapping)
    walked = find_files([own], follow_links=False)
    assert walked.files == (own / "a.txt",)
    assert walked.skipped == (linked, Skipped(str(own / "in"), "is reached by a link"))
