"""A folder of OWNER/NAME in place of the functions of huggingface_hub that mbc calls."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from mbc_engine import sharing as hub

SHA = "a" * 40
# The HTTP library of the hub's client, which differs between versions.
http_library = sys.modules[HfHubHTTPError.__bases__[0].__module__]


def http_error(kind, status, text=""):
    """An error as the hub's client raises it when the hub answers with a status."""
    request = http_library.Request("GET", "https://hub.test")
    return kind(text, response=http_library.Response(status, request=request))


class FakeHub:
    """As much of a hub as a model needs.

    Attributes:
        folder: the repositories.
        error: raised by every call, if there is one.
        private: repositories that are private.
        fetched: the files of the last download.
    """

    def __init__(self, folder):
        self.folder, self.error, self.private, self.fetched = Path(folder), None, set(), []

    def install(self, patch=setattr):
        """Put it in place of the client."""
        patch(hub, "HfApi", lambda **_: self)
        patch(hub, "snapshot_download", self.snapshot_download)
        patch(hub, "get_token", lambda: "hf_secret")
        patch(hub.ModelCard, "load", lambda repository: SimpleNamespace(content=self.card(repository)))

    def card(self, repository="ada/tiny"):
        """The text of a model card."""
        return (self.folder / repository / "README.md").read_text()

    def model_info(self, repository, revision=None):
        if self.error:
            raise self.error
        if not (self.folder / repository).is_dir():
            raise http_error(RepositoryNotFoundError, 404)
        if revision not in (None, "main", "v1", "v2", SHA):
            raise http_error(RevisionNotFoundError, 404)
        siblings = [SimpleNamespace(rfilename=name) for name in self._files(repository)]
        return SimpleNamespace(sha=SHA, private=repository in self.private, siblings=siblings)

    def snapshot_download(self, repository, *, revision, local_dir, allow_patterns, library_name):
        assert revision == SHA
        self.fetched = [name for name in self._files(repository) if name in allow_patterns]
        for name in self.fetched:
            (Path(local_dir) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.folder / repository / name, Path(local_dir) / name)
        (Path(local_dir) / ".cache").mkdir(exist_ok=True)

    def create_repo(self, repository, *, private, exist_ok):
        if private and not (self.folder / repository).exists():
            self.private.add(repository)
        (self.folder / repository).mkdir(parents=True, exist_ok=exist_ok)

    def create_commit(self, repository, additions, *, commit_message):
        for addition in additions:
            path = self.folder / repository / addition.path_in_repo
            path.parent.mkdir(parents=True, exist_ok=True)
            with addition.as_file() as content:
                path.write_bytes(content.read())
        return SimpleNamespace(oid=SHA)

    def _files(self, repository):
        home = self.folder / repository
        return sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
