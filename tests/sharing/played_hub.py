"""A hub that is played: it answers the hub's own client, and nothing leaves the process."""

import base64
import hashlib
import json
import sys

from huggingface_hub.errors import HfHubHTTPError

SHA, OTHER_SHA = "a" * 40, "b" * 40
LARGE = "model.safetensors"
# What the hub's client speaks HTTP with; which library that is differs between versions.
http_library = sys.modules[HfHubHTTPError.__bases__[0].__module__]


class PlayedHub:
    """As much of a hub as a model needs: repositories of files, of which some are large.

    Attributes:
        files: by repository and path.
        asked: method and path of every request.
        answer: what is answered to everything, instead.
        committed: the lines of every commit.
    """

    def __init__(self):
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.answer: http_library.Response | Exception | None = None
        self.committed: list[list[dict]] = []

    def client(self) -> http_library.Client:
        """One that asks this hub, whatever the address."""
        return http_library.Client(transport=http_library.MockTransport(self), follow_redirects=True)

    def __call__(self, request: http_library.Request) -> http_library.Response:
        self.asked.append(f"{request.method} {request.url.path}")
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        kind, *words = request.url.path.strip("/").split("/")
        if kind != "api":
            return self._file(request.method, f"{kind}/{words[0]}", "/".join(words[3:]))
        if words == ["validate-yaml"]:
            return http_library.Response(200, json={"errors": [], "warnings": []})
        if words[:2] == ["repos", "create"]:
            return self._create(json.loads(request.content))
        repository = "/".join(words[1:3])
        if repository not in self.files:
            return http_library.Response(404, headers={"X-Error-Code": "RepoNotFound"})
        match words[3:]:
            case ["revision", revision] if revision not in ("main", "v1", SHA):
                return http_library.Response(404, headers={"X-Error-Code": "RevisionNotFound"})
            case [] | ["revision", _]:
                return http_library.Response(200, json=self._info(repository))
            case ["preupload", _]:
                paths = [file["path"] for file in json.loads(request.content)["files"]]
                modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
                return http_library.Response(200, json={"files": modes})
            case ["commit", _]:
                return self._commit(repository, [json.loads(line) for line in request.content.splitlines()])
        return http_library.Response(404)

    def _info(self, repository):
        def sibling(name, content):
            told = {"rfilename": name, "size": len(content), "blobId": "0"}
            digest = hashlib.sha256(content).hexdigest()
            large = {"lfs": {"sha256": digest, "size": len(content), "pointerSize": 1}} if name == LARGE else {}
            return {**told, **large}

        siblings = [sibling(*file) for file in self.files[repository].items()]
        private = self.private.get(repository, False)
        return {"id": repository, "sha": SHA, "private": private, "siblings": siblings}

    def _file(self, method, repository, name):
        content = self.files[repository].get(name)
        if content is None:
            return http_library.Response(404, headers={"X-Error-Code": "EntryNotFound"})
        headers = {
            "X-Repo-Commit": SHA,
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "Content-Length": str(len(content)),
        }
        return http_library.Response(200, headers=headers, content=content if method == "GET" else None)

    def _create(self, wanted):
        repository = f"{wanted['organization']}/{wanted['name']}"
        if repository in self.files:
            return http_library.Response(409, json={"url": f"https://hub.test/{repository}"})
        self.files[repository] = {}
        self.private[repository] = wanted.get("visibility") == "private" or wanted.get("private", False)
        return http_library.Response(200, json={"url": f"https://hub.test/{repository}"})

    def _commit(self, repository, lines):
        self.committed.append(lines)
        for line in lines:
            if line["key"] == "file":
                self.files[repository][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            if line["key"] == "deletedFile":
                del self.files[repository][line["value"]["path"]]
        return http_library.Response(
            200, json={"commitUrl": "https://hub.test/ada/tiny/commit/c", "commitOid": OTHER_SHA}
        )
