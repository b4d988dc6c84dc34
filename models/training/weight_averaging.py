"""Running average of the Fader network's weights during training, and its best state."""

import torch
from torch import Tensor, nn

from models.fader import Fader


class Average(nn.Module):
    """A running average of a Fader network's weights, with warm-up: decay min(0.999, (1 + t) / (10 + t))."""

    def __init__(self, module: Fader) -> None:
        super().__init__()
        self.module = type(module)(module.shape)
        self.module.load_state_dict(module.state_dict())
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Move the average towards ``module`` after step ``step``."""
        decay = min(0.999, (1 + step) / (10 + step))
        for mean, now in zip(self.module.parameters(), module.parameters(), strict=True):
            mean.lerp_(now.detach(), 1 - decay)
        for kept, buffer in zip(self.module.buffers(), module.buffers(), strict=True):
            kept.copy_(buffer)


class Best(nn.Module):
    """The running average at its best checkpoint so far, and its score (minus infinity before the first)."""

    worth: Tensor

    def __init__(self, module: Fader) -> None:
        super().__init__()
        self.average = Average(module)
        self.register_buffer("worth", torch.tensor(-torch.inf))

    def offer(self, average: Average, worth: float) -> None:
        """Keep ``average`` if its score exceeds the best so far."""
        if worth > self.worth:
            self.average.load_state_dict(average.state_dict())
            self.worth.fill_(worth)
