"""A file of a repo, read in ranges: a header without the weights behind it, within a fixed number of bytes."""

from __future__ import annotations

import json
from typing import Any

from hubaudit.errors import ModelFileError

__all__ = ["RemoteFile", "read_json"]

MAX_JSON_BYTES = 4 << 20
_FIRST, _LARGEST = 1 << 16, 4 << 20
_TIMEOUT = 20.0
_STATUS_RETRIES = 2
_CUT_RETRIES = 2
_PARTIAL = 206


class RemoteFile:
    """Reads forward through a file on the Hub; never more than `budget` bytes come over the network.

    The client's own retries (rate limits and their headers, 5xx, dropped connections) apply, and an answer that
    ends too early is asked for again.
    """

    def __init__(self, repo_id: str, name: str, *, revision: str, size: int, budget: int) -> None:
        """Prepare; nothing is fetched yet.

        Args:
            repo_id: The model's repo.
            name: The file's path in it.
            revision: Full commit SHA.
            size: The file's size in bytes, as the Hub's listing has it.
            budget: Most bytes to fetch.
        """
        self.repo_id, self.name, self.revision = repo_id, name, revision
        self.size = size
        self.fetched = 0
        self._budget = budget
        self._start, self._window = 0, b""
        self._step = _FIRST

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start` on.

        Raises:
            ModelFileError: If the file ends before, its server ignores ranges, or the budget is spent.
            Exception: Whatever huggingface_hub raises; call it within `hub_errors`.
        """
        if start + count > self.size:
            raise ModelFileError(
                f"{self.repo_id}/{self.name}: expected {count:,} bytes at byte {start:,}, got a file of "
                f"{self.size:,}; it is truncated or damaged, tell its author"
            )
        at = start - self._start
        if not 0 <= at <= len(self._window):
            self._start, self._window, self._step, at = start, b"", _FIRST, 0
        if at + count > len(self._window):
            kept = self._window[at:]
            end = start + len(kept)
            stop = min(self.size, max(start + count, end + self._step))
            self._start, self._window = start, kept + self._fetch(end, stop)
            self._step, at = min(2 * self._step, _LARGEST), 0
        return self._window[at : at + count]

    def _fetch(self, start: int, stop: int) -> bytes:
        if self.fetched + stop - start > self._budget:
            raise ModelFileError(
                f"{self.repo_id}/{self.name}: expected a header within {self._budget >> 20} MiB, but it goes on; "
                "it is damaged or no model"
            )
        for _ in range(1 + _CUT_RETRIES):
            body = self._request(start, stop)
            if len(body) == stop - start:
                self.fetched += len(body)
                return body
        raise ModelFileError(
            f"{self.repo_id}/{self.name}: the connection was cut {1 + _CUT_RETRIES} times at byte "
            f"{start + len(body):,}; run the command again"
        )

    def _request(self, start: int, stop: int) -> bytes:
        """What one answer holds of a range; less where the connection broke."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # loaded lazily: mypy does not see them
            build_hf_headers,
            hf_raise_for_status,
            http_stream_backoff,
        )

        url = hf_hub_url(self.repo_id, self.name, revision=self.revision)
        # Identity, so that a small answer cannot unfold into a large one.
        headers = build_hf_headers() | {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        body = bytearray()
        with http_stream_backoff(
            "GET", url, headers=headers, timeout=_TIMEOUT, max_retries=_STATUS_RETRIES
        ) as response:
            hf_raise_for_status(response)
            if start and response.status_code != _PARTIAL:
                raise ModelFileError(
                    f"{self.repo_id}/{self.name}: expected the server to answer a range of the file, got status "
                    f"{response.status_code}"
                )
            try:
                for part in response.iter_bytes(_FIRST):
                    body += part
                    if len(body) >= stop - start:
                        break  # a server that ignores ranges would send the whole file
            except Exception:
                # Let out of this block it would confuse the client's retry loop; the caller sees what is missing.
                pass
        return bytes(body[: stop - start])


def read_json(repo_id: str, name: str, *, revision: str, size: int, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A small JSON file of a repo, not kept on disk.

    Raises:
        ModelFileError: If it is larger than `limit` bytes or no JSON object.
        Exception: Whatever huggingface_hub raises; call it within `hub_errors`.
    """
    if size > limit:
        raise ModelFileError(f"{repo_id}/{name}: expected at most {limit >> 20} MiB of JSON, got {size:,} bytes")
    text = RemoteFile(repo_id, name, revision=revision, size=size, budget=limit).read(0, size)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ModelFileError(f"{repo_id}/{name}: expected JSON, got something else ({type(exc).__name__})") from exc
    if not isinstance(value, dict):
        raise ModelFileError(f"{repo_id}/{name}: expected a JSON object, got {type(value).__name__}")
    return value
