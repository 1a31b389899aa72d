"""One quant of a GGUF repo, from its first shard's header."""

from __future__ import annotations

import dataclasses
import re

from hubaudit.hub.child import Child
from hubaudit.hub.children_claims import ModelShape, wrong_shape
from hubaudit.hub.quants import Quant
from hubaudit.hub.remote_file import RemoteFile
from hubaudit.hub.remote_header_gguf import (
    MAX_GGUF_HEADER,
    GgufHeader,
    KnownLengths,
    gguf_header,
    is_float,
    type_name,
    unreadable_types,
)
from hubaudit.hub.repo_files import RepoFiles

__all__ = ["read_quant"]

# What a reference on the command line can hold.
_PLAIN_NAME = re.compile(r"[\w.+/() -]+", re.ASCII)
_MAX_SHARDS_READ = 4


def read_quant(
    plain: Child,
    quant: Quant,
    files: RepoFiles,
    shape: ModelShape,
    n_parameters: int | None,
    known: KnownLengths,
) -> Child:
    """Read the header of a quant.

    Args:
        plain: The repo's entry, to be filled.
        quant: The quant.
        files: The repo's files.
        shape: The base's shape.
        n_parameters: The base's parameters, for a quant in several files.
        known: Lengths of tokenizers in headers, from earlier files; this one's are added.

    Raises:
        ModelFileError: If the header is damaged.
        Exception: Whatever huggingface_hub raises; call it within `hub_errors`.
    """
    child = dataclasses.replace(
        plain,
        spec=f"{plain.spec}:{quant.files[0]}",
        quant=quant.label,
        bits=quant.bits,
        size_bytes=quant.size_bytes,
    )
    if quant.missing:
        return dataclasses.replace(child, reason=f"the repo lacks its shard {quant.missing[0][-80:]}")
    if not _PLAIN_NAME.fullmatch(quant.files[0]):
        return dataclasses.replace(child, reason="its file name holds characters that no reference can hold")
    headers: list[GgufHeader] = []
    for name in quant.files[:_MAX_SHARDS_READ]:
        headers.append(_header(files, name, known))
        if headers[-1].head is not None:
            break
    first, last = headers[0], headers[-1]
    if len(quant.files) == 1:
        n_parameters = first.n_parameters or None
    stated = ModelShape(n_layers=_n_layers(first))
    head = last.head
    if head is not None and len(head[0]) == 2:
        stated = dataclasses.replace(stated, vocabulary=head[0][0], hidden_size=head[0][1])
    return dataclasses.replace(
        child,
        bits_per_weight=round(quant.size_bytes * 8 / n_parameters, 3) if quant.size_bytes and n_parameters else None,
        head_quantized=None if head is None else not is_float(head[1]),
        head_type=None if head is None else type_name(head[1]),
        reason=_reason(first, last),
        wrong_base=child.wrong_base or wrong_shape(shape, stated),
    )


def _header(files: RepoFiles, name: str, known: KnownLengths) -> GgufHeader:
    file = RemoteFile(files.repo_id, name, revision=files.revision, size=files.sizes[name], budget=MAX_GGUF_HEADER)
    return gguf_header(file, known)


def _reason(first: GgufHeader, last: GgufHeader) -> str | None:
    kind = first.metadata.get("general.type")
    if isinstance(kind, str) and kind != "model":
        return f"the file holds no model, but {'an adapter' if kind == 'adapter' else 'something else'}"
    if last.head is None:
        return "no output head was found in its headers; it may be no language model"
    if unknown := unreadable_types(last) or unreadable_types(first):
        return f"it holds tensors of {', '.join(unknown[:3])}, which the package gguf cannot expand"
    return None


def _n_layers(header: GgufHeader) -> int | None:
    """Decoder blocks without those that only predict further tokens."""
    further = header.metadata.get(f"{header.metadata.get('general.architecture')}.nextn_predict_layers", 0)
    return header.n_layers - further if header.n_layers and isinstance(further, int) else header.n_layers
