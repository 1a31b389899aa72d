"""A GGUF file as llama.cpp runs it: its own kernels on the quantized weights, activations quantized as they do."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from hubaudit.errors import ModelFileError, OutOfMemoryError, VariantError
from hubaudit.load.gguf_file import GgufFile, open_gguf
from hubaudit.load.llamacpp_library import library, library_version, said
from hubaudit.load.model import ModelSource

if TYPE_CHECKING:
    import torch

    from hubaudit.stats.head import Head

__all__ = ["LlamaCppModel", "load_llamacpp"]

_ALL_LAYERS = 1_000_000
_ONE_GPU = 0  # LLAMA_SPLIT_MODE_NONE


@dataclasses.dataclass
class LlamaCppModel:
    """A loaded file and what is known of it."""

    source: ModelSource
    head: Head
    """The dense expansion of the file's head, as the dense engine uses it."""
    head_type: str
    """The tensor type that the file stores the head in."""
    handle: Any
    """`llama_model *`."""
    n_vocabulary: int
    width: int
    """Of the features at the head's input."""
    cache_bytes_a_token: int
    """Keys and values of one token in float16, all layers."""
    rounding: str
    """The dtype as coarse as what llama.cpp rounds activations to: 8 bits where weights are quantized."""
    notes: list[str]
    dtype: str = "float32"
    """Of features and logits, as llama.cpp hands them out."""

    def close(self) -> None:
        """Free the model; `handle` is gone afterwards."""
        if self.handle is not None:
            library().llama_model_free(self.handle)
            self.handle = None


def load_llamacpp(source: ModelSource, head: Head, *, device: torch.device) -> LlamaCppModel:
    """Load a GGUF file into llama.cpp.

    Args:
        source: The file, or any shard of it.
        head: The file's head as the dense engine expanded it.
        device: A GPU takes all layers, if llama-cpp-python was built for one.

    Raises:
        MissingExtraError: If llama-cpp-python is not installed.
        ModelFileError: If llama.cpp cannot read the file: damaged, or newer than the library.
        OutOfMemoryError: If it does not fit.
        VariantError: If its vocabulary or width is not that of the head.
    """
    llama = library(source.spec)
    file = open_gguf(source.path)
    head_tensor = file.tensors.get("output.weight") or file.tensors["token_embd.weight"]
    notes = []
    options = llama.llama_model_default_params()
    options.use_extra_bufts = False  # repacked weights crash on some CPUs
    options.n_gpu_layers = 0
    if device.type == "cuda" and llama.llama_supports_gpu_offload():
        options.n_gpu_layers, options.main_gpu, options.split_mode = _ALL_LAYERS, device.index or 0, _ONE_GPU
    elif device.type == "cuda":
        notes.append("llama-cpp-python was built without GPU support, so llama.cpp ran on the CPU.")
    handle = llama.llama_model_load_from_file(os.fsencode(file.paths[0]), options)
    if not handle:
        raise _not_loaded(source)
    vocabulary = llama.llama_model_get_vocab(handle)
    model = LlamaCppModel(
        source=source,
        head=head,
        head_type=head_tensor.type_name,
        handle=handle,
        n_vocabulary=int(llama.llama_vocab_n_tokens(vocabulary)),
        width=int(llama.llama_model_n_embd(handle)),
        cache_bytes_a_token=_cache_bytes(llama, handle),
        rounding=_rounding(file),
        notes=notes,
    )
    if (model.n_vocabulary, model.width) != (head.n_rows, head.width):
        model.close()
        raise VariantError(
            f"{source.spec}: expected {head.n_rows} tokens and features of width {head.width}, as its head has, "
            f"llama.cpp reads {model.n_vocabulary} and {model.width}. Use --engine-gguf dense."
        )
    return model


def _rounding(file: GgufFile) -> str:
    matrices = {info.type_name for info in file.tensors.values() if len(info.shape) > 1}
    if matrices <= {"F32"}:
        return "float32"
    return "float16" if matrices <= {"F32", "F16"} else "bfloat16"


def _cache_bytes(llama: Any, handle: Any) -> int:
    heads = max(1, int(llama.llama_model_n_head(handle)))
    width = int(llama.llama_model_n_embd(handle)) // heads * int(llama.llama_model_n_head_kv(handle))
    return 2 * 2 * max(1, width) * int(llama.llama_model_n_layer(handle))


def _not_loaded(source: ModelSource) -> ModelFileError | OutOfMemoryError:
    why = said()
    if any(sign in why for sign in ("unable to allocate", "failed to allocate", "out of memory", "bad_alloc")):
        return OutOfMemoryError(
            f"{source.spec}: expected the file to fit into memory for llama.cpp ({why}). Close other programs, use a "
            "smaller file, or --device cpu."
        )
    return ModelFileError(
        f"{source.spec}: expected a file that llama.cpp reads, as of llama-cpp-python {library_version()}, it says: "
        f"{why}. If the file is newer, run pip install --upgrade llama-cpp-python; else use --engine-gguf dense."
    )
