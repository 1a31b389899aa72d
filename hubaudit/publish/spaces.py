"""A Space on the Hub: created where it is missing, its files written in one commit."""

from __future__ import annotations

from collections.abc import Mapping

from hubaudit.errors import AccessError
from hubaudit.publish.push import hide_tokens
from hubaudit.version import __version__

__all__ = ["write_space"]


def write_space(repo_id: str, files: Mapping[str, bytes], *, so_far: str = "") -> str:
    """Create a Space or update it.

    Args:
        repo_id: `ORG/NAME`.
        files: What it shall hold, by path; other files of it stay.
        so_far: What of a longer push is done already, for the message of a failure.

    Returns:
        The address of the commit.

    Raises:
        AccessError: If the Hub refuses, or cannot be reached; nothing was written then, or an empty Space.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(library_name="hubaudit", library_version=__version__)
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    try:
        api.create_repo(repo_id, repo_type="space", space_sdk="gradio", exist_ok=True)
        done = api.create_commit(repo_id, operations, commit_message=f"hubaudit {__version__}", repo_type="space")
    except Exception as exc:  # huggingface_hub's and its HTTP client's own trees
        line = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
        raise AccessError(
            f"expected to write the Space {repo_id}, but the Hub answered: {hide_tokens(line)}{so_far}; log in with "
            "`hf auth login` as a member of the namespace, check the network, and run the same command again"
        ) from exc
    return str(done.commit_url)
