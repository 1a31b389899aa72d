"""A GGUF file as a dense model: the base's configuration, the file's numbers."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import nn

from hubaudit.errors import ModelFileError
from hubaudit.load.assemble import assemble
from hubaudit.load.extras import require
from hubaudit.load.model import BaseContext, LoadedModel, ModelSource
from hubaudit.load.quiet import quiet_transformers
from hubaudit.load.sizes import StoredSize

__all__ = ["EXPANDED_NOTE", "adapted", "allocate", "load_gguf"]

EXPANDED_NOTE = "The file's weights were expanded to dense ones; activations are not quantized."


def load_gguf(
    source: ModelSource,
    *,
    base: BaseContext,
    dtype: torch.dtype,
    device: torch.device,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a GGUF file into the architecture of its base.

    The file's own metadata is used for checks only: it lacks rope scaling and much else, and an
    unquantized file built from it differs from its source, while from the base's configuration it is
    equal. A file without `output.weight` has a tied head, whatever the base has; one with it does not.

    Args:
        source: The file, or any shard of it.
        base: Configuration of the base.
        dtype: Of the expanded weights.
        device: Where the model runs.
        trust_remote_code: Whether code of the base's repo may run.

    Raises:
        MissingExtraError: If the package gguf is not installed.
        ModelFileError: If the file is damaged, or does not fit the base: another architecture, a tensor
            missing, left over, of another shape, or of a type that cannot be expanded.
    """
    require("gguf", extra="gguf", what=source.spec)
    from hubaudit.load.gguf_arch import architecture_for
    from hubaudit.load.gguf_file import open_gguf
    from hubaudit.load.gguf_fill import fill
    from hubaudit.load.gguf_names import EMBEDDING_TENSOR, HEAD_TENSOR, match_tensors

    file = open_gguf(source.path)
    config = base.config.get_text_config()
    name = file.paths[0].name
    architecture = architecture_for(file.architecture, config.model_type, file_name=name)
    embedding = file.tensors.get(EMBEDDING_TENSOR)
    if embedding is None:
        raise ModelFileError(
            f"{name}: expected tensor {EMBEDDING_TENSOR}, got none among {len(file.tensors)}. Use a file that holds "
            "a whole language model (no projector, draft head or importance matrix)."
        )
    config, notes = adapted(config, n_rows=embedding.shape[0], tied=HEAD_TENSOR not in file.tensors)
    model = allocate(config, dtype, device, trust_remote_code=trust_remote_code)
    targets = match_tensors(model, file, architecture, config)
    fill(
        (
            file.tensors[tensor],
            target.view,
            architecture.restorer(tensor, config),
        )
        for tensor, target in targets.items()
    )
    used = [file.tensors[tensor] for tensor in targets]
    kinds = Counter[str]()
    for info in used:
        kinds[info.type_name] += info.n_elements
    size = StoredSize(
        n_parameters=sum(info.n_elements for info in used),
        n_quantized=sum(info.n_elements for info in used if info.quantized),
        n_bits=8 * sum(info.n_bytes for info in used),
    )
    head = file.tensors.get(HEAD_TENSOR, embedding)
    return assemble(
        source,
        model,
        file_format=f"gguf:{kinds.most_common(1)[0][0]}",
        dtype=dtype,
        device=device,
        size=size,
        head_quantized=head.quantized,
        notes=[EXPANDED_NOTE, *notes],
    )


def adapted(config: Any, *, n_rows: int, tied: bool) -> tuple[Any, list[str]]:
    """The base's configuration with the file's vocabulary rows and head, and a note for each change."""
    config = copy.deepcopy(config)
    notes = []
    if n_rows != config.vocab_size:
        notes.append(f"The file's vocabulary has {n_rows} rows, the base's {config.vocab_size}.")
        config.vocab_size = n_rows
        if config.pad_token_id is not None and config.pad_token_id >= n_rows:
            config.pad_token_id = None  # torch refuses a padding row outside the table; it changes no logits
    if tied != bool(config.tie_word_embeddings):
        notes.append(f"The file's head is {'tied to' if tied else 'apart from'} the embeddings, unlike the base's.")
        config.tie_word_embeddings = tied
    return config, notes


def allocate(config: Any, dtype: torch.dtype, device: torch.device, *, trust_remote_code: bool = False) -> nn.Module:
    """The model with memory for its weights but nothing written there; buffers are computed as always.

    Args:
        config: Of a causal language model.
        dtype: Of the weights.
        device: Of weights and buffers.
        trust_remote_code: Whether code of the configuration's repo may run.
    """
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with quiet_transformers(), no_init_weights(), torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
    model.tie_weights()
    assert isinstance(model, nn.Module)
    return model
