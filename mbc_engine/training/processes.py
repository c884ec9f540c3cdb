"""The processes that train together, started by `accelerate launch`, or the only one.

Each encodes its share of a batch's documents and answers its share of the questions; what depends on the whole batch
(the bank, centring, codes) sees all of it in every process, in the same order. So the losses of all processes add up to
those of one process with the whole batch.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DistributedDataParallelKwargs,
    DistributedType,
    GradientAccumulationPlugin,
    InitProcessGroupKwargs,
)
from torch import Tensor, distributed, nn

from mbc_engine.errors import ConfigError
from mbc_engine.machine import is_launched

# One process may compute the states of a large dataset, or write a checkpoint, while the others wait.
_PATIENCE: Final = timedelta(days=1)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Share:
    """A process's part of `total` items: `count` of `indices`, which are padded with the last to a common length."""

    indices: list[int]
    count: int
    total: int

    @property
    def unpadded(self) -> list[int]:
        """Its own indices, or one stand-in if it has none, since all processes must take the same steps."""
        return self.indices[: max(self.count, 1)]

    def weight(self, count: float, total: float) -> float:
        """The weight of this process's mean over `count` elements, of `total` in all processes."""
        return count / total if self.count else 0.0


class Processes:
    """Communication between the `count` processes; this one has number `rank`, from 0."""

    def __init__(self, accelerator: Accelerator, device: torch.device) -> None:
        self.accelerator, self.device = accelerator, device
        self.count: int = accelerator.num_processes
        self.rank: int = accelerator.process_index

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def is_sharded(self) -> bool:
        return bool(self.accelerator.state.distributed_type == DistributedType.FSDP)

    def prepare(
        self, training: nn.Module, optimizer: torch.optim.Optimizer, whole: nn.Module | None
    ) -> torch.optim.Optimizer:
        """Wrap what trains as the launch requires, for use by `run_wrapped`; returns the optimiser to use.

        `whole` is a part that is never sharded, since not only gradients change it.
        """
        if self.is_sharded and whole is not None:
            self.accelerator.state.fsdp_plugin.ignored_modules = [whole]
        self._wrapped, prepared = self.accelerator.prepare(_Wrapped(training), optimizer)
        return prepared  # type: ignore[no-any-return]

    def run_wrapped(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work with whole parameters, whose gradients are then synchronised over all processes."""
        result: Result = self._wrapped(work, *arguments)
        if self.is_sharded and not torch.is_grad_enabled():
            self._wrapped.reshard()  # with gradients, the backward pass does it
        return result

    def no_sync(self) -> AbstractContextManager[None]:
        """A context in which gradients add up locally; the next backward pass after it synchronises them."""
        return self.accelerator.no_sync(self._wrapped)  # type: ignore[no-any-return]

    def share(self, total: int) -> Share:
        size = -(-total // self.count)
        first = self.rank * size
        indices = [min(first + index, total - 1) for index in range(size)]
        return Share(indices, max(0, min(size, total - first)), total)

    def gather(self, shares: Tensor, total: int) -> Tensor:
        """The items of all shares in their order, [size, ...] -> [total, ...], with gradient to each process's own."""
        if self.count == 1:
            return shares
        return _Gather.apply(shares, self.rank, self.count)[:total]  # type: ignore[no-any-return, no-untyped-call]

    @torch.no_grad()
    def broadcast_from_main(self, fitted: Iterable[Tensor]) -> None:
        """Replace what each process fitted by itself with the main process's values.

        GPUs sum in any order, and what depends on the last digit (clusters, signs) may differ.
        """
        for value in fitted if self.count > 1 else ():
            distributed.broadcast(value, 0)

    def summed(self, values: Sequence[float]) -> list[float]:
        return self._reduced(values, distributed.ReduceOp.SUM)

    def highest(self, value: int) -> int:
        return int(self._reduced([value], distributed.ReduceOp.MAX)[0])

    def _reduced(self, values: Sequence[float], operation: Any) -> list[float]:
        if self.count == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(numbers, operation)
        return numbers.tolist()


class _Wrapped(nn.Module):
    """Does work in a `forward`, the method that DDP and FSDP wrap."""

    def __init__(self, training: nn.Module) -> None:
        super().__init__()
        self.module = training

    def forward(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return work(*arguments)


def processes_on(device: str, *, trackers: Sequence[str] = (), folder: Path | None = None) -> Processes:
    """The processes of this launch, or the only one; on GPUs, each of several has its own.

    Trackers, by accelerate's names, keep their files in `folder`. Raises ConfigError if the launch asks for something
    that training does not support.
    """
    accelerator = Accelerator(
        cpu=is_launched() and device == "cpu",
        device_placement=False,
        log_with=list(trackers) or None,
        project_dir=folder,
        # Training handles precision and the weights of losses itself.
        mixed_precision="no",
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        kwargs_handlers=[
            # The router, or a codebook not in use yet, may not contribute to a loss.
            DistributedDataParallelKwargs(find_unused_parameters=True),
            InitProcessGroupKwargs(timeout=_PATIENCE),
        ],
    )
    kind = accelerator.state.distributed_type
    if kind in (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise ConfigError(
            f"Training cannot be launched with {kind.value}.", hint="Use FSDP to shard parameters; see docs/scale.md."
        )
    if kind == DistributedType.FSDP and accelerator.state.fsdp_plugin.fsdp_version == 1:
        raise ConfigError("Training needs FSDP version 2.", hint="Launch it with fsdp_version: 2.")
    return Processes(accelerator, accelerator.device if is_launched() else torch.device(device))


class _Gather(torch.autograd.Function):
    """Concatenates equally shaped tensors from all processes; each one's gradient is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, shares: Tensor, rank: int, count: int) -> Tensor:
        ctx.rows = slice(rank * len(shares), (rank + 1) * len(shares))
        parts = [torch.empty_like(shares) for _ in range(count)]
        distributed.all_gather(parts, shares.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous()
        distributed.all_reduce(total)
        return total[ctx.rows], None, None
