"""Every error a user can meet, branched by what the user does next.

    HubAuditError
    |-- InputError (ValueError)        2   change an argument or an input file
    |   `-- MissingExtraError          2   install an optional dependency
    |-- AccessError                    3   fix the repo id, the access or the network
    |   `-- ModelFileError             3   the files are there, but cannot be used
    |-- VariantError                   4   this variant cannot be audited; the others can
    |   `-- NonFiniteError             4   the model produced NaN or infinity
    `-- ResourceError                  5   free disk or memory
        |-- OutOfDiskError             5
        `-- OutOfMemoryError           5

The number is the exit code of the command line. A message says what was expected, what was found and
what to do next, in one line; it never holds a token.
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "HubAuditError",
    "InputError",
    "MissingExtraError",
    "ModelFileError",
    "NonFiniteError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "ResourceError",
    "VariantError",
]


class HubAuditError(Exception):
    """Base of all errors that hubaudit raises on purpose."""

    exit_code = 1


class InputError(HubAuditError, ValueError):
    """An argument or an input file is not usable as it is."""

    exit_code = 2


class MissingExtraError(InputError):
    """An optional dependency is needed; the message names the extra to install."""


class AccessError(HubAuditError):
    """A repo, dataset or folder cannot be read: missing, gated, or no network."""

    exit_code = 3


class ModelFileError(AccessError):
    """A model's files are present but broken, foreign, or of a shape that does not fit."""


class VariantError(HubAuditError):
    """One variant cannot be audited; the others are not affected."""

    exit_code = 4


class NonFiniteError(VariantError):
    """A model produced NaN or infinite activations."""


class ResourceError(HubAuditError):
    """The machine ran out of something."""

    exit_code = 5


class OutOfDiskError(ResourceError):
    """No space left where the evidence, the cache or the report is written."""


class OutOfMemoryError(ResourceError):
    """Neither the model nor a batch fits into the memory of the device."""
