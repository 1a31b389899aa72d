"""Write a GGUF file in other tensor types: what the demo's GGUF variants are made with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import torch

from hubaudit.errors import InputError, ModelFileError

__all__ = ["requantize_gguf"]


def requantize_gguf(source: Path, targets: Mapping[str, Path]) -> None:
    """Expand a GGUF file to bfloat16 and quantize that again, every matrix in the same type.

    Metadata and tokenizer are copied. Vectors (norms) stay as they are. With tied embeddings the head is the
    embedding and so is quantized too.

    Args:
        source: A GGUF file in one piece.
        targets: For each tensor type that the `gguf` package can write (`Q8_0`, `Q5_0`, `Q4_0`, ...) the file.

    Raises:
        InputError: If the `gguf` package cannot write a type.
        ModelFileError: If the source cannot be read.
    """
    for name in targets:
        if name not in gguf.GGMLQuantizationType.__members__:
            raise InputError(f"expected a GGUF tensor type such as Q8_0, Q5_0 or Q4_0, but got {name!r}")
    try:
        reader = gguf.GGUFReader(source)
    except (OSError, ValueError, KeyError, IndexError) as exc:
        raise ModelFileError(f"{source}: cannot be read as GGUF ({exc}); download the file again") from exc
    architecture = str(reader.fields["general.architecture"].contents())
    partial = {name: path.with_name(f".{path.name}.{os.getpid()}.tmp") for name, path in targets.items()}
    writers = {}
    for name, path in partial.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[name] = gguf.GGUFWriter(path, architecture)
    _copy_metadata(reader, writers)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim > 1:
            values = torch.from_numpy(np.array(values)).to(torch.bfloat16).to(torch.float32).numpy()
        for name, writer in writers.items():
            if values.ndim < 2:
                writer.add_tensor(tensor.name, np.ascontiguousarray(values, dtype=np.float32))
            else:
                kind = gguf.GGMLQuantizationType[name]
                writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    for name, writer in writers.items():
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        partial[name].replace(targets[name])


def _copy_metadata(reader: gguf.GGUFReader, writers: Mapping[str, gguf.GGUFWriter]) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        contents = field.contents()
        for writer in writers.values():
            writer.add_key_value(field.name, contents, kind, sub_type=element)
    for name, writer in writers.items():
        file_type = getattr(gguf.LlamaFileType, f"MOSTLY_{name}", None)
        if file_type is not None:
            writer.add_file_type(file_type)
