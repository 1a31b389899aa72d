"""The four metrics in evaluate's module cache, where `evaluate.load` looks for a bare name after the Hub.

    HF_MODULES_CACHE/evaluate_modules/metrics/evaluate-metric--NAME/<sha256>/NAME.py

Of several versions the loader takes the file that was written last, so an installed file is always written anew or its
time set anew, and the versions that hubaudit installed before are removed. What others put there stays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Literal

from hubaudit.errors import InputError
from hubaudit.resources import bundled

__all__ = ["METRICS", "MetricStatus", "install_metrics", "installed_metrics", "metric_folder", "modules_cache"]

METRICS = ("correctness_agreement", "direction_floor", "prism_bound", "translation_attenuation")

_MARKER = "installed_by_hubaudit"
_HASH_LENGTH = 64


@dataclasses.dataclass(frozen=True)
class MetricStatus:
    """One metric in the module cache."""

    name: str
    state: Literal["current", "outdated", "shadowed", "missing"]
    """`outdated`: of another version of hubaudit; `shadowed`: evaluate would load a file that is not hubaudit's."""
    path: Path
    """The file that evaluate would load, or the one that would be installed where there is none."""


def metric_folder(name: str) -> Path:
    """The folder of one metric in this installation, with its module, README, app and requirements.

    Raises:
        InputError: If there is no such metric.
    """
    if name not in METRICS:
        raise InputError(f"expected one of {', '.join(METRICS)}, got {name!r}; correct the metric's name")
    return bundled("metrics") / name


def modules_cache() -> Path:
    """The folder that evaluate loads modules from; `HF_MODULES_CACHE` names another one."""
    import evaluate.config

    return Path(evaluate.config.HF_MODULES_CACHE).expanduser()


def install_metrics(*, cache: Path | None = None) -> list[MetricStatus]:
    """Place the metrics of this installation, and remove those that hubaudit placed before.

    Args:
        cache: The module cache; None for evaluate's own.

    Returns:
        One entry a metric, all of them current. Doing it again changes nothing but the files' times.

    Raises:
        InputError: If the cache cannot be written.
    """
    cache = modules_cache() if cache is None else cache
    for name in METRICS:
        try:
            _install(name, cache)
        except OSError as exc:
            raise InputError(
                f"expected a module cache that can be written, got {cache} ({exc.strerror or exc}); name another "
                "folder in HF_MODULES_CACHE, here and wherever the metrics are loaded"
            ) from exc
    return installed_metrics(cache=cache)


def installed_metrics(*, cache: Path | None = None) -> list[MetricStatus]:
    """What evaluate would load for each of the metrics' names, without the Hub.

    Args:
        cache: The module cache; None for evaluate's own.

    Returns:
        One entry a metric.
    """
    cache = modules_cache() if cache is None else cache
    return [_status(name, cache) for name in METRICS]


def _status(name: str, cache: Path) -> MetricStatus:
    ours = _versions_folder(name, cache) / _version(name) / f"{name}.py"
    files = [folder / f"{name}.py" for folder in _versions(name, cache)]
    files = sorted((file for file in files if file.is_file()), key=lambda file: file.stat().st_mtime)
    if not files:
        return MetricStatus(name, "missing", ours)
    if files[-1].parent == ours.parent and files[-1].read_bytes() == _source(name):
        return MetricStatus(name, "current", ours)
    by_hubaudit = (files[-1].parent / _MARKER).is_file()
    return MetricStatus(name, "outdated" if by_hubaudit else "shadowed", files[-1])


def _install(name: str, cache: Path) -> None:
    metric = _versions_folder(name, cache)
    metric.mkdir(parents=True, exist_ok=True)
    for folder in (cache, metric.parent.parent, metric.parent, metric):
        # Importable as evaluate makes them itself; touched only where missing.
        (folder / "__init__.py").touch(exist_ok=True)
    target = metric / _version(name)
    module = target / f"{name}.py"
    if not (module.is_file() and module.read_bytes() == _source(name)):
        _place(name, target)
    # The newest file is the one that evaluate loads, also beside files of others that claim to be newer.
    newest = max((file.stat().st_mtime for file in metric.glob(f"*/{name}.py")), default=0.0)
    now = max(time.time(), newest + 1.0 if newest > time.time() else 0.0)
    os.utime(module, (now, now))
    for folder in _versions(name, cache):
        if folder != target and (folder / _MARKER).is_file():
            shutil.rmtree(folder)


def _place(name: str, target: Path) -> None:
    """Write a version under another name, then rename it: a process that loads it never sees half of it."""
    unfinished = target.with_name(f"unfinished-{uuid.uuid4().hex}")
    try:
        unfinished.mkdir()
        (unfinished / "__init__.py").touch()
        (unfinished / _MARKER).touch()
        (unfinished / f"{name}.py").write_bytes(_source(name))
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _versions_folder(name: str, cache: Path) -> Path:
    return cache / "evaluate_modules" / "metrics" / f"evaluate-metric--{name}"


def _versions(name: str, cache: Path) -> list[Path]:
    folder = _versions_folder(name, cache)
    return sorted(entry for entry in folder.glob("*/") if len(entry.name) == _HASH_LENGTH)


def _source(name: str) -> bytes:
    return (metric_folder(name) / f"{name}.py").read_bytes()


def _version(name: str) -> str:
    return hashlib.sha256(_source(name)).hexdigest()
