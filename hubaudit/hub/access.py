"""The Hub's failures in the user's words: what could not be read, why, and the next step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

from hubaudit.errors import AccessError, HubAuditError, OutOfDiskError

__all__ = ["hub_errors", "retried"]

NO_SPACE = 28
_LOGIN_WANTED = 401
_WAITS = (1.0, 4.0, 16.0)
_LONGEST_WAIT = 60.0
_PASSING = (429, 500, 502, 503, 504)

_T = TypeVar("_T")


def retried(call: Callable[[], _T]) -> _T:
    """Run a request of the Hub's API again where it failed for a while only; downloads do so by themselves.

    Args:
        call: The request.

    Returns:
        What it returns, after at most three retries. A rate limit's `Retry-After` is heeded up to a minute.
    """
    from huggingface_hub.errors import HfHubHTTPError

    for wait in _WAITS:
        try:
            return call()
        except HfHubHTTPError as exc:
            if exc.response.status_code not in _PASSING:
                raise
            asked = exc.response.headers.get("Retry-After", "")
            time.sleep(min(float(asked), _LONGEST_WAIT) if asked.isdigit() else wait)
    return call()


@contextlib.contextmanager
def hub_errors(repo_id: str, *, kind: Literal["model", "dataset"] = "model") -> Iterator[None]:
    """Turn what huggingface_hub and datasets raise into one clear error.

    Args:
        repo_id: The repo that is being read; named in the message.
        kind: What it is, for the address of its page.

    Raises:
        AccessError: With the next step, for every failure to read.
        OutOfDiskError: If the disk is full.
    """
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/{'datasets/' if kind == 'dataset' else ''}{repo_id}"
    try:
        yield
    except HubAuditError:
        raise
    except errors.GatedRepoError as exc:
        raise AccessError(
            f"{repo_id}: the {kind} is gated; accept its licence on {page} and log in with `hf auth login`"
        ) from exc
    except errors.RepositoryNotFoundError as exc:
        raise AccessError(
            f"{repo_id}: no such {kind} on the Hub, or it is private; check the id, or log in with `hf auth login`"
        ) from exc
    except errors.RevisionNotFoundError as exc:
        raise AccessError(f"{repo_id}: no such revision; see {page}/commits/main") from exc
    except errors.EntryNotFoundError as exc:
        raise AccessError(
            f"{repo_id}: a file is missing, and the cache does not hold it; see {page}/tree/main, "
            "or check the network (and HF_HUB_OFFLINE)"
        ) from exc
    except Exception as exc:  # the rest of the Hub client's tree, its HTTP client's, and the dataset reader's
        if isinstance(exc, OSError) and exc.errno == NO_SPACE:
            raise OutOfDiskError(f"{repo_id}: the disk is full; free space or set HF_HOME to another disk") from exc
        if isinstance(exc, errors.HfHubHTTPError) and exc.response.status_code == _LOGIN_WANTED:
            raise AccessError(
                f"{repo_id}: the Hub asks who you are (401); log in with `hf auth login`, or renew the token"
            ) from exc
        raise AccessError(
            f"{repo_id}: the {kind} could not be read ({_first_line(exc)}); check the network and the id"
        ) from exc


def _first_line(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0][:200]}" if lines else type(exc).__name__
