"""A context of llama.cpp: slots that hold sequences, and calls that run blocks of tokens in them."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hubaudit.errors import OutOfMemoryError, VariantError
from hubaudit.load.llamacpp import LlamaCppModel
from hubaudit.load.llamacpp_library import library, said

__all__ = ["Context", "Outputs", "Run"]

PAD_ID = 0
CACHE_BYTES = 2**29
MAX_SLOTS = 128
# llama.cpp rounds the room of a sequence up to this anyway.
SLOT_GRAIN = 256
LOGITS_A_CALL = 2**26
_NO_FLASH_ATTENTION, _NO_POOLING = 0, 0


@dataclasses.dataclass(frozen=True)
class Run:
    """Tokens to append to what a slot holds."""

    ids: tuple[int, ...]
    first: int
    """Position of the first of them."""
    outputs: dict[int, int]
    """For each place in `ids` that is read, the row of the result it becomes."""


@dataclasses.dataclass(frozen=True)
class Outputs:
    """What some places left."""

    rows: npt.NDArray[np.int64]
    features: torch.Tensor
    """(rows, d) float32, a copy."""
    logits: torch.Tensor
    """(rows, V) float32, valid until the next call."""


class Context:
    """Memory for several sequences of a model.

    Sequences share no cells and no kernel sums over all of them: several in one call equal one alone.
    """

    def __init__(self, model: LlamaCppModel, *, longest: int, batch_tokens: int) -> None:
        """Reserve memory.

        Args:
            model: The model.
            longest: Tokens of the longest sequence, padding included.
            batch_tokens: Most tokens of a call.

        Raises:
            OutOfMemoryError: If llama.cpp cannot make it.
        """
        self.model = model
        self._llama = llama = library(model.source.spec)
        room = -(-longest // SLOT_GRAIN) * SLOT_GRAIN
        self.max_outputs = max(2, min(batch_tokens, LOGITS_A_CALL // model.n_vocabulary))
        fitting = CACHE_BYTES // (room * model.cache_bytes_a_token)
        self.n_slots = int(max(2, min(MAX_SLOTS, self.max_outputs, fitting, llama.llama_max_parallel_sequences())))
        self.batch_tokens = max(batch_tokens, self.n_slots)
        options = llama.llama_context_default_params()
        # The library divides n_ctx among the sequences.
        options.n_seq_max, options.n_ctx = self.n_slots, self.n_slots * room
        options.n_batch = options.n_ubatch = self.batch_tokens
        options.n_outputs_max = self.max_outputs
        options.n_outputs_max_per_seq = 0
        options.n_threads = options.n_threads_batch = torch.get_num_threads()
        options.embeddings, options.pooling_type = True, _NO_POOLING
        options.flash_attn_type, options.kv_unified = _NO_FLASH_ATTENTION, False
        self._handle = llama.llama_init_from_model(model.handle, options)
        if not self._handle:
            raise OutOfMemoryError(
                f"{model.source.spec}: expected llama.cpp to make room for {self.n_slots} sequences of {room} tokens, "
                f"it says: {said()}. Close other programs, or lower --batch-tokens."
            )
        self._memory = llama.llama_get_memory(self._handle)
        self._batch = _Batch(llama, self.batch_tokens)

    def close(self) -> None:
        """Free the memory."""
        if self._handle:
            self._llama.llama_free(self._handle)
            self._handle = None

    def clear(self) -> None:
        """Empty every slot."""
        self._llama.llama_memory_clear(self._memory, True)

    def cut(self, slot: int, length: int) -> None:
        """Forget what a slot holds from a position on.

        Raises:
            RuntimeError: If the architecture keeps a state that cannot be taken back.
        """
        if not self._llama.llama_memory_seq_rm(self._memory, slot, length, -1):
            raise RuntimeError("this architecture's memory cannot be cut")

    def copy(self, source: int, target: int) -> None:
        """Let a slot begin as another one; only whole slots can be copied."""
        self._llama.llama_memory_seq_rm(self._memory, target, -1, -1)
        self._llama.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def run(self, runs: Sequence[Run], first_slot: int) -> Iterator[Outputs]:
        """Run tokens in neighbouring slots, one run a slot, padded at the right to the longest.

        Slots of equal length go through the model as one block. Blocks are cut between columns, where a call would
        hold too many tokens or logits.

        Args:
            runs: At most as many as there are slots.
            first_slot: Slot of the first one.

        Yields:
            What is read, a call at a time.

        Raises:
            OutOfMemoryError: If llama.cpp has no memory left.
            VariantError: If it fails otherwise.
        """
        ids = np.full((len(runs), max(len(run.ids) for run in runs)), PAD_ID, dtype=np.int32)
        wanted = np.full(ids.shape, -1, dtype=np.int64)
        for at, run in enumerate(runs):
            ids[at, : len(run.ids)] = run.ids
            wanted[at, list(run.outputs)] = list(run.outputs.values())
        first = np.asarray([run.first for run in runs], dtype=np.int32)[:, None]
        slots = np.arange(first_slot, first_slot + len(runs), dtype=np.int32)[:, None]
        for start, stop, read in self._calls(np.any(wanted >= 0, axis=0), len(runs)):
            block = ids[:, start:stop]
            positions = first + np.arange(start, stop, dtype=np.int32)
            self._decode(block.ravel(), positions.ravel(), np.broadcast_to(slots, block.shape).ravel(), read=read)
            if read:
                yield self._outputs(wanted[:, start:stop].ravel())

    def _calls(self, wanted: Any, n_runs: int) -> Iterator[tuple[int, int, bool]]:
        """First and one past the last column of each call, and whether it is read.

        A context that hands out features multiplies every token of a call with the head. So what comes before the
        first column that is wanted, and after the last, runs in calls of its own without.
        """
        columns = np.flatnonzero(wanted)
        first, last = (int(columns[0]), int(columns[-1]) + 1) if len(columns) else (len(wanted), len(wanted))
        for start, stop, read in ((0, first, False), (first, last, True), (last, len(wanted), False)):
            width = max(1, (self.max_outputs if read else self.batch_tokens) // n_runs)
            for at in range(start, stop, width):
                yield at, min(at + width, stop), read

    def _decode(self, ids: Any, positions: Any, slots: Any, *, read: bool) -> None:
        self._llama.llama_set_embeddings(self._handle, read)
        code = self._llama.llama_decode(self._handle, self._batch.filled(ids, positions, slots, read))
        if code:
            kind = OutOfMemoryError if code in (1, -2) else VariantError
            raise kind(
                f"{self.model.source.spec}: expected llama.cpp to run {len(ids)} tokens, it ended with code {code} "
                f"({said()}). Lower --batch-tokens, or use --engine-gguf dense."
            )

    def _outputs(self, rows: npt.NDArray[np.int64]) -> Outputs:
        """What the last call left; `rows` is -1 for a token that nobody asked for."""
        llama, n = self._llama, len(rows)
        logits = torch.from_numpy(
            np.ctypeslib.as_array(llama.llama_get_logits(self._handle), (n, self.model.n_vocabulary))
        )
        features = torch.from_numpy(
            np.ctypeslib.as_array(llama.llama_get_embeddings(self._handle), (n, self.model.width))
        )
        kept = np.flatnonzero(rows >= 0)
        if len(kept) == n:
            return Outputs(rows, features.clone(), logits)
        chosen = torch.from_numpy(kept)
        return Outputs(rows[kept], features[chosen], logits[chosen])


class _Batch:
    """llama.cpp's batch over arrays of ours, filled anew for every call."""

    def __init__(self, llama: Any, size: int) -> None:
        self._ids, self._positions, self._slots = (np.zeros(size, dtype=np.int32) for _ in range(3))
        self._counts = np.ones(size, dtype=np.int32)
        self._read = np.zeros(size, dtype=np.int8)
        int32 = ctypes.POINTER(ctypes.c_int32)
        at = self._slots.ctypes.data
        self._slot_of = (int32 * size)(
            *(ctypes.cast(at + index * self._slots.itemsize, int32) for index in range(size))
        )
        self._batch = llama.llama_batch(
            token=self._ids.ctypes.data_as(int32),
            pos=self._positions.ctypes.data_as(int32),
            n_seq_id=self._counts.ctypes.data_as(int32),
            seq_id=self._slot_of,
            logits=self._read.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def filled(self, ids: Any, positions: Any, slots: Any, read: bool) -> Any:
        """The batch with these tokens, all of them read or none."""
        n = len(ids)
        self._ids[:n], self._positions[:n], self._slots[:n], self._read[:n] = ids, positions, slots, read
        self._batch.n_tokens = n
        return self._batch
