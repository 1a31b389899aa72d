"""A Hub on loopback for tests: what huggingface_hub and datasets really call, with faults on demand.

Repos live in memory (big files as paths). The real client talks to it through `HF_ENDPOINT`; nothing of
huggingface_hub is replaced. Tokens: `hf_write_TESTSECRET` may write, `hf_read_TESTSECRET` only reads; a private repo is
seen with either, a gated one once `granted` names it.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
import socket
import threading
import traceback
import urllib.parse
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

READ_TOKEN, WRITE_TOKEN = "hf_read_TESTSECRET", "hf_write_TESTSECRET"
# What gradio gives a page's code after signing in, where it stands in for the Hub.
OAUTH_TOKEN = "mock-oauth-token-for-local-dev"
LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".parquet")
CHUNK = 1 << 20
Content = bytes | Path


@dataclasses.dataclass
class Repo:
    """One repo: commits by id, refs by name, the newest commit first in each ref's history."""

    kind: str
    repo_id: str
    private: bool = False
    gated: bool = False
    downloads: int = 0
    commits: dict[str, dict[str, Content]] = dataclasses.field(default_factory=dict)
    history: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    pull_requests: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def commit(self, ref: str, files: dict[str, Content], title: str = "commit") -> str:
        """Put a tree on top of a ref; returns the new commit's id."""
        seed = json.dumps([self.repo_id, ref, title, len(self.commits), sorted(files)]).encode()
        sha = hashlib.sha1(seed).hexdigest()
        self.commits[sha] = dict(files)
        self.history.setdefault(ref, []).insert(0, sha)
        return sha

    def resolve(self, revision: str) -> str | None:
        """The full commit id of a branch, `refs/pr/N` or id."""
        history = self.history.get(revision)
        return history[0] if history else (revision if revision in self.commits else None)

    def card(self) -> dict[str, Any]:
        """The front matter of the card on main."""
        text = self.commits[self.history["main"][0]].get("README.md", b"")
        match = re.match(rb"\A(?:\xef\xbb\xbf)?---\r?\n(.*?)\r?\n---", text, re.S) if isinstance(text, bytes) else None
        try:
            data = yaml.safe_load(match.group(1)) if match else {}
        except yaml.YAMLError:
            data = {}
        return data if isinstance(data, dict) else {}

    def tags(self) -> list[str]:
        """As the Hub makes them from the card."""
        card = self.card()
        bases = card.get("base_model") or []
        relation = card.get("base_model_relation")
        tags = list(card.get("tags") or [])
        for base in [bases] if isinstance(bases, str) else bases:
            tags += [f"base_model:{base}"] + ([f"base_model:{relation}:{base}"] if relation else [])
        return tags


@dataclasses.dataclass
class Fault:
    """What happens instead of an answer, a number of times."""

    pattern: re.Pattern[str]
    status: int | str
    times: int
    headers: dict[str, str]


class HubServer:
    """The server, its repos, its log of requests."""

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.moved: dict[str, str] = {}
        self.granted: set[str] = set()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.tokens_seen: list[str | None] = []
        self.lfs: dict[str, Content] = {}
        self.page_size = 100
        self.url = self.cdn = ""
        self.home = Path()
        """HF_HOME of the test."""
        self._server = uvicorn.Server(
            uvicorn.Config(self._app, interface="asgi3", log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread: threading.Thread | None = None

    # ---- for tests ------------------------------------------------------------------------------------------

    def start(self, port: socket.socket) -> None:
        """Listen on a bound socket."""
        self.url = f"http://127.0.0.1:{port.getsockname()[1]}"
        # Another host by name: the client stops at a redirect to another host, and sends no token there.
        self.cdn = self.url.replace("127.0.0.1", "localhost")
        self._thread = threading.Thread(target=self._server.run, args=([port],), daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)

    def stop(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(5)

    @property
    def env(self) -> dict[str, str]:
        """Environment of another process that uses this Hub, the test's cache and a token that may write."""
        found = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        settings = {"HF_ENDPOINT": self.url, "HF_HOME": str(self.home), "HF_TOKEN": WRITE_TOKEN}
        return found | settings | {"HF_HUB_DISABLE_XET": "1"}

    def reset(self) -> None:
        """Forget everything."""
        for store in (self.repos, self.moved, self.granted, self.faults, self.requests, self.tokens_seen, self.lfs):
            store.clear()
        self.page_size = 100

    def add(self, repo_id: str, files: dict[str, Content | str], *, kind: str = "models", **options: Any) -> Repo:
        """Add a repo, or a commit with exactly these files to it."""
        repo = self.repos.setdefault((kind, repo_id), Repo(kind, repo_id))
        for name, value in options.items():
            setattr(repo, name, value)
        encoded = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
        repo.commit("main", encoded)
        return repo

    def add_folder(self, repo_id: str, folder: Path, *, card: str = "", **options: Any) -> Repo:
        """Add a model from a folder; its files are served from there."""
        files: dict[str, Content | str] = {
            path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
        }
        return self.add(repo_id, files | ({"README.md": card} if card else {}), **options)

    def files(self, repo_id: str, revision: str = "main", *, kind: str = "models") -> dict[str, Content]:
        """The tree at a revision."""
        repo = self.repos[kind, repo_id]
        sha = repo.resolve(revision)
        assert sha is not None
        return repo.commits[sha]

    def fail(self, pattern: str, status: int | str, *, times: int = 1, **headers: str) -> None:
        """Answer the next matching requests (`METHOD /path`) with a status, or cut the body with `cut`."""
        self.faults.append(Fault(re.compile(pattern), status, times, headers))

    # ---- requests -------------------------------------------------------------------------------------------

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        path = scope["raw_path"].decode()
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        self.requests.append(f"{request.method} {path}" + (f"?{request.url.query}" if request.url.query else ""))
        self.tokens_seen.append(token)
        cut = False
        for fault in self.faults:
            if fault.times and fault.pattern.search(self.requests[-1]):
                fault.times -= 1
                if fault.status == "cut":
                    cut = True
                    break
                text = {"error": f"fault {fault.status}"}
                await JSONResponse(text, int(fault.status), headers=fault.headers)(scope, receive, send)
                return
        try:
            response = await self._route(request, path, token)
        except Exception:
            traceback.print_exc()  # a mistake of this server, which the client would only call a 500
            raise
        if cut:
            response = _cut(response)
        try:
            await response(scope, receive, send)
        except ConnectionError:
            if not cut:
                raise
            # Nothing more is sent, so uvicorn closes the connection before the promised length.

    async def _route(self, request: Request, path: str, token: str | None) -> Response:
        body = await request.body() if request.method in ("POST", "PUT") else b""
        if path == "/api/whoami-v2":
            role = {READ_TOKEN: "read", WRITE_TOKEN: "write", OAUTH_TOKEN: "write"}.get(token or "")
            if role is None:
                return JSONResponse({"error": "Invalid username or password."}, 401)
            user = {"type": "user", "id": "1", "name": "tester", "fullname": "Tester", "avatarUrl": f"{self.url}/a.png"}
            more = {"email": None, "emailVerified": True, "isPro": False, "canPay": False, "orgs": []}
            auth = {"accessToken": {"displayName": "t", "role": role, "createdAt": "2026-01-01T00:00:00.000Z"}}
            return JSONResponse(user | more | {"auth": auth})
        if path == "/api/validate-yaml":
            return JSONResponse({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self._create(json.loads(body), token)
        if path == "/api/models":
            return self._list(request)
        if match := re.fullmatch(r"/lfs/(\w+)", path):
            self.lfs[match[1]] = body
            return Response()
        if path == "/lfs-verify":
            return Response()
        if match := re.fullmatch(r"/cdn/(\w+)", path):
            return _file(request, self.lfs[match[1]], {"ETag": f'"{match[1]}"'})
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            return self._lfs_batch(json.loads(body), token)
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(
                request, match[1] or "models", match[2], *map(urllib.parse.unquote, match.groups()[2:])
            )
        if match := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/([\w-]+)(?:/(.+))?)?", path):
            return self._api(request, match[1], match[2], match[3] or "revision", match[4] or "", body, token)
        return JSONResponse({"error": path}, 404)

    def _find(self, kind: str, repo_id: str, token: str | None, request: Request) -> Repo | Response:
        if repo_id in self.moved:
            target = str(request.url).replace(repo_id, self.moved[repo_id])
            return Response(status_code=307, headers={"Location": target})
        repo = self.repos.get((kind, repo_id))
        if repo is None or (repo.private and token not in (READ_TOKEN, WRITE_TOKEN, OAUTH_TOKEN)):
            return _error(401 if token is None else 404, "RepoNotFound", "Repository not found")
        return repo

    def _api(
        self, request: Request, kind: str, repo_id: str, action: str, rest: str, body: bytes, token: str | None
    ) -> Response:
        repo = self._find(kind, repo_id, token, request)
        if isinstance(repo, Response):
            return repo
        revision, _, inner = rest.partition("/")
        revision = urllib.parse.unquote(revision) or "main"
        sha = repo.resolve(revision)
        if action == "discussions":
            return JSONResponse({"discussions": repo.pull_requests, "count": len(repo.pull_requests), "start": 0})
        if action == "refs":
            branches = [{"name": "main", "ref": "refs/heads/main", "targetCommit": repo.history["main"][0]}]
            return JSONResponse({"branches": branches, "converts": [], "tags": []})
        if action == "auth-check":
            return self._gate(repo, token) or JSONResponse({})
        if sha is None:
            return _error(404, "RevisionNotFound", "Invalid rev id")
        files = repo.commits[sha]
        if action == "commits":
            entries = [
                {"id": one, "title": "commit", "message": "", "authors": [], "date": "2026-01-01T00:00:00.000Z"}
                for one in repo.history.get(revision, [sha])
            ]
            return JSONResponse(entries)
        if action == "revision":
            return JSONResponse(self._info(repo, sha, blobs="blobs" in request.query_params))
        if action == "tree":
            return self._tree(request, files, urllib.parse.unquote(inner))
        if action == "paths-info":
            wanted = urllib.parse.parse_qs(body.decode()).get("paths", [])
            return JSONResponse([_entry(name, files[name]) for name in wanted if name in files])
        if token not in (WRITE_TOKEN, OAUTH_TOKEN):
            return JSONResponse({"error": "Forbidden: this token may not write"}, 403)
        return self._write(request, repo, action, revision, sha, body)

    def _write(self, request: Request, repo: Repo, action: str, revision: str, sha: str, body: bytes) -> Response:
        if action == "preupload":
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(LFS_SUFFIXES) else "regular",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for file in json.loads(body)["files"]
            ]
            return JSONResponse({"files": modes})
        if action == "commit":
            return self._commit(request, repo, revision, sha, body)
        return JSONResponse({"error": action}, 404)

    def _commit(self, request: Request, repo: Repo, revision: str, sha: str, body: bytes) -> Response:
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        parent = header.get("parentCommit")
        as_request = request.query_params.get("create_pr") == "1"
        if parent is not None and parent != sha and not as_request:
            return JSONResponse({"error": "The base commit is not the latest one"}, 412)
        files = dict(repo.commits[parent if as_request and parent in repo.commits else sha])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.lfs[value["oid"]]
            elif line["key"] == "deletedFile":
                files.pop(value["path"], None)
        answer: dict[str, Any] = {}
        if as_request:
            number = len(repo.pull_requests) + 1
            revision = f"refs/pr/{number}"
            repo.pull_requests.append(
                {
                    "num": number,
                    "title": header["summary"],
                    "description": header.get("description", ""),
                    "isPullRequest": True,
                    "status": "open",
                    "author": {"name": "tester"},
                    "repo": {"name": repo.repo_id, "type": repo.kind.removesuffix("s")},
                    "createdAt": "2026-01-01T00:00:00.000Z",
                }
            )
            answer["pullRequestUrl"] = f"{self.url}/{repo.repo_id}/discussions/{number}"
        oid = repo.commit(revision, files, header["summary"])
        prefix = "" if repo.kind == "models" else f"{repo.kind}/"
        answer |= {"commitUrl": f"{self.url}/{prefix}{repo.repo_id}/commit/{oid}", "commitOid": oid}
        return JSONResponse(answer | {"success": True, "hookOutput": ""})

    def _create(self, wanted: dict[str, Any], token: str | None) -> Response:
        if token not in (WRITE_TOKEN, OAUTH_TOKEN):
            return JSONResponse({"error": "You are not a member of this organization."}, 403)
        kind = wanted.get("type", "model") + "s"
        repo_id = f"{wanted.get('organization') or 'tester'}/{wanted['name']}"
        url = f"{self.url}/{'' if kind == 'models' else kind + '/'}{repo_id}"
        if (kind, repo_id) in self.repos:
            return JSONResponse({"error": "You already created this repo", "url": url}, 409)
        self.add(repo_id, {}, kind=kind)
        return JSONResponse({"url": url, "name": repo_id})

    def _lfs_batch(self, wanted: dict[str, Any], token: str | None) -> Response:
        if token not in (WRITE_TOKEN, OAUTH_TOKEN):
            return JSONResponse({"error": "Forbidden"}, 403)
        verify = {"href": f"{self.url}/lfs-verify", "header": {}}
        objects = [
            {
                "oid": file["oid"],
                "size": file["size"],
                "authenticated": True,
                "actions": {"upload": {"href": f"{self.url}/lfs/{file['oid']}", "header": {}}, "verify": verify},
            }
            for file in wanted["objects"]
        ]
        return JSONResponse({"transfer": "basic", "objects": objects})

    def _list(self, request: Request) -> Response:
        wanted, searched = request.query_params.getlist("filter"), request.query_params.get("search", "").lower()
        found = [
            repo
            for (kind, _), repo in self.repos.items()
            if kind == "models" and not repo.private
            if set(wanted) <= set(repo.tags()) and searched in repo.repo_id.lower()
        ]
        found.sort(key=lambda repo: -repo.downloads)
        start = int(request.query_params.get("cursor", 0))
        stop = start + min(self.page_size, int(request.query_params.get("limit", 10**9)))
        headers = {}
        if stop < len(found):
            query = [item for item in request.query_params.multi_items() if item[0] != "cursor"]
            query.append(("cursor", str(stop)))
            headers["Link"] = f'<{self.url}/api/models?{urllib.parse.urlencode(query)}>; rel="next"'
        infos = [self._info(repo, repo.history["main"][0], blobs=False) for repo in found[start:stop]]
        if fields := request.query_params.getlist("expand"):
            infos = [{key: info[key] for key in info.keys() & {"id", *fields}} for info in infos]
        return JSONResponse(infos, headers=headers)

    def _info(self, repo: Repo, sha: str, *, blobs: bool) -> dict[str, Any]:
        files = repo.commits[sha]
        siblings = [_entry(name, content) if blobs else {"rfilename": name} for name, content in files.items()]
        return {
            "id": repo.repo_id,
            "modelId": repo.repo_id,
            "sha": sha,
            "private": repo.private,
            "gated": "manual" if repo.gated else False,
            "disabled": False,
            "downloads": repo.downloads,
            "likes": 0,
            "tags": repo.tags(),
            "cardData": repo.card(),
            "lastModified": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "siblings": siblings,
        }

    def _tree(self, request: Request, files: dict[str, Content], inside: str) -> Response:
        start = int(request.query_params.get("cursor", 0))
        names = sorted(name for name in files if not inside or name.startswith(inside + "/"))
        if "recursive" not in request.query_params:
            names = [name for name in names if "/" not in name.removeprefix(inside + "/" if inside else "")]
        headers = {}
        if start + self.page_size < len(names):
            query = dict(request.query_params) | {"cursor": str(start + self.page_size)}
            address = f"{self.url}{request.scope['raw_path'].decode()}?{urllib.parse.urlencode(query)}"
            headers["Link"] = f'<{address}>; rel="next"'
        page = names[start : start + self.page_size]
        return JSONResponse([_entry(name, files[name]) for name in page], headers=headers)

    def _gate(self, repo: Repo, token: str | None) -> Response | None:
        if repo.gated and repo.repo_id not in self.granted:
            return _error(403 if token else 401, "GatedRepo", f"Access to {repo.repo_id} is restricted")
        return None

    def _resolve(self, request: Request, kind: str, repo_id: str, revision: str, name: str) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        repo = self._find(kind, repo_id, token, request)
        if isinstance(repo, Response):
            return repo
        if refused := self._gate(repo, token):
            return refused
        sha = repo.resolve(revision)
        if sha is None:
            return _error(404, "RevisionNotFound", "Invalid rev id")
        if name not in repo.commits[sha]:
            return _error(404, "EntryNotFound", "Entry not found", **{"X-Repo-Commit": sha})
        content = repo.commits[sha][name]
        entry = _entry(name, content)
        headers = {"X-Repo-Commit": sha, "ETag": f'"{entry["oid"]}"'}
        if "lfs" in entry:
            oid = entry["lfs"]["oid"]
            self.lfs[oid] = content
            headers |= {"X-Linked-ETag": f'"{oid}"', "X-Linked-Size": str(entry["size"])}
            return Response(status_code=302, headers=headers | {"Location": f"{self.cdn}/cdn/{oid}"})
        return _file(request, content, headers)


def _error(status: int, code: str, text: str, **headers: str) -> Response:
    headers |= {"X-Error-Code": code, "X-Error-Message": text}
    return JSONResponse({"error": text}, status, headers=headers)


_DIGESTS: dict[tuple[str, int], str] = {}


def _sha256(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    key = (str(content), content.stat().st_mtime_ns)
    if key not in _DIGESTS:
        with content.open("rb") as stream:
            _DIGESTS[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _DIGESTS[key]


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _entry(name: str, content: Content) -> dict[str, Any]:
    digest, size = _sha256(content), _size(content)
    entry: dict[str, Any] = {"type": "file", "path": name, "rfilename": name, "size": size, "oid": digest[:40]}
    entry["blobId"] = entry["oid"]
    if name.endswith(LFS_SUFFIXES):
        entry["lfs"] = {"oid": digest, "sha256": digest, "size": size, "pointerSize": 130}
    return entry


def _file(request: Request, content: Content, headers: dict[str, str]) -> Response:
    """A file or a range of it, in chunks."""
    size = _size(content)
    start, stop, status = 0, size, 200
    if match := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", "")):
        start, status = int(match[1]), 206
        stop = min(size, int(match[2]) + 1) if match[2] else size
        if start >= size:
            return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
        headers = headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    headers = headers | {"Content-Length": str(stop - start), "Accept-Ranges": "bytes"}
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)

    async def chunks() -> AsyncIterator[bytes]:
        if isinstance(content, bytes):
            yield content[start:stop]
            return
        with content.open("rb") as stream:
            stream.seek(start)
            left = stop - start
            while left:
                part = stream.read(min(CHUNK, left))
                left -= len(part)
                yield part

    return StreamingResponse(chunks(), status, headers=headers)


def _cut(response: Response) -> Response:
    """The same answer, whose body ends after half of its first chunk."""
    if not isinstance(response, StreamingResponse):
        return response
    original: Callable[[], Any] = response.body_iterator.__aiter__

    async def half() -> AsyncIterator[bytes]:
        async for part in original():
            assert isinstance(part, bytes)
            yield part[: len(part) // 2]
            raise ConnectionResetError

    response.body_iterator = half()
    return response
