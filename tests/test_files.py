"""Files are whole or not there, also on a full disk."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from hubaudit.errors import InputError, OutOfDiskError
from hubaudit.files import remove_file, write_file


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_file(path, b"first") == path
    write_file(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_keeps_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_file(path, b"older")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # the kernel refuses to write on, as on a full disk
    try:
        with pytest.raises(OutOfDiskError, match="the disk is full, 8192 bytes are needed"):
            write_file(path, b"x" * 8192)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_and_no_quota(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutOfDiskError, match="free some space, or name another folder with --out"):
        write_file(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []


def test_remove_file(tmp_path: Path) -> None:
    remove_file(tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        remove_file(tmp_path / "folder")
