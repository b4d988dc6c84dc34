"""Shared by all training runs: seeds, learning rates, atomic checkpoints, resuming, a log."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Schedule:
    """Number of steps, and steps between log lines and between checkpoints."""

    steps: int
    log_every: int = 50
    save_every: int = 250


@dataclass
class Session:
    """A training run in a folder with ``checkpoint.pt`` and ``log.jsonl``.

    ``state`` maps names to everything that is saved (modules, optimisers), each with ``state_dict`` and
    ``load_state_dict``.
    """

    folder: Path
    schedule: Schedule
    state: dict[str, Any]
    step: int = 0
    _started: float = field(default_factory=time.monotonic)

    def resume(self) -> None:
        """Load the checkpoint in the folder, if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "checkpoint.pt"
        if path.exists():
            saved = torch.load(path, map_location="cpu", weights_only=True)
            for name, part in self.state.items():
                part.load_state_dict(saved[name])
            self.step = saved["step"]

    def save(self) -> None:
        """Write the checkpoint atomically."""
        path = self.folder / "checkpoint.pt"
        partial = path.with_suffix(".partial")
        torch.save({name: part.state_dict() for name, part in self.state.items()} | {"step": self.step}, partial)
        partial.replace(path)

    def log(self, **figures: float) -> None:
        """Append one line of figures to the log and print it."""
        line = {"step": self.step, "seconds": round(time.monotonic() - self._started, 1)}
        line |= {name: round(float(value), 5) for name, value in figures.items()}
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")
        print(" ".join(f"{name}={value}" for name, value in line.items()), flush=True)

    def run(self, one_step: Callable[[int], dict[str, float]]) -> Iterator[int]:
        """Call ``one_step`` until the schedule ends; yield after every checkpoint so that the caller can evaluate."""
        self.resume()
        while self.step < self.schedule.steps:
            figures = one_step(self.step)
            self.step += 1
            if self.step % self.schedule.log_every == 0:
                self.log(**figures)
            if self.step % self.schedule.save_every == 0 or self.step == self.schedule.steps:
                self.save()
                yield self.step


def one_cycle(step: int, *, steps: int, peak: float, warm_up: float = 0.15) -> float:
    """Return a learning rate that rises linearly to ``peak`` and falls to zero as a cosine."""
    done = step / max(1, steps)
    if done < warm_up:
        return peak * min(1.0, max(done, 1 / max(1, steps)) / warm_up)
    position = torch.tensor((done - warm_up) / (1 - warm_up) * torch.pi)
    return peak * 0.5 * (1 + float(torch.cos(position)))


def descend(
    losses: Mapping[str, Tensor], optimiser: torch.optim.Optimizer, *, steepest: float = 5.0
) -> dict[str, float]:
    """Take one optimiser step on the sum of the losses; return the losses as numbers.

    Args:
        losses: weighted losses by name.
        optimiser: optimiser of the trained parameters.
        steepest: the norm to which gradients are clipped.
    """
    optimiser.zero_grad(set_to_none=True)
    torch.stack(list(losses.values())).sum().backward()
    torch.nn.utils.clip_grad_norm_([p for group in optimiser.param_groups for p in group["params"]], steepest)
    optimiser.step()
    return {name: loss.item() for name, loss in losses.items()}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the optimiser's learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def drawn(rows: Tensor, weights: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Draw ``count`` of the rows with replacement by their weights."""
    chosen: Tensor = rows[torch.multinomial(weights, count, replacement=True, generator=random)]
    return chosen


def generator(seed: int, step: int) -> torch.Generator:
    """Return the random generator of a step, so that a resumed run draws the same as an uninterrupted one."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)
