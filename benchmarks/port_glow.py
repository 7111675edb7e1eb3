"""The PyTorch port's Glow and optimiser, written anew from its formulas for timing.

Same arithmetic and the same kinds of operations as the public port: 1x1 convolutions over
[B, D, 1, 1], one module an operation, an ActNorm that asks its buffer whether it is initialised on
every call, the priors as torch distributions, Adam without bias correction in a Python loop over
the parameters.
"""

import math

import torch
from torch import nn


class ActNorm(nn.Module):
    """y = (x + b) exp(3 s)."""

    def __init__(self, channels: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        """Return y and the log-det; the first call sets b and s from its rows."""
        if self.initialized.item() == 0:
            with torch.no_grad():
                mean = x.mean((0, 2, 3), keepdim=True)
                std = (x - mean).square().mean((0, 2, 3), keepdim=True).sqrt()
                self.bias.copy_(-mean)
                self.log_scale.copy_(-torch.log(std + 1e-6) / 3.0)
            self.initialized.fill_(1)
        log_scale = 3.0 * self.log_scale
        return (x + self.bias) * torch.exp(log_scale), torch.sum(log_scale)


class Conditioner(nn.Module):
    """Three 1x1 convolutions with ActNorms between them."""

    def __init__(self, channels: int, width: int = 32):
        super().__init__()
        self.hidden1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = ActNorm(width)
        self.hidden2 = nn.Conv2d(width, width, 1, bias=False)
        self.norm2 = ActNorm(width)
        self.out = nn.Conv2d(width, channels, 1)
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        for layer in (self.hidden1, self.hidden2):
            nn.init.normal_(layer.weight, 0.0, 0.05)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        """Return the shift of the other half."""
        h = torch.relu(self.norm1(self.hidden1(x))[0])
        h = torch.relu(self.norm2(self.hidden2(h))[0])
        return self.out(h) * torch.exp(3.0 * self.log_scale)


class Step(nn.Module):
    """ActNorm, reversal (as the port has it: a convolution with a fixed matrix), coupling."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = ActNorm(channels)
        reversal = torch.flip(torch.eye(channels), (1,))[:, :, None, None]
        self.register_buffer("reversal", reversal)
        self.net = Conditioner(channels // 2)

    def forward(self, x):
        """Return y and the log-det."""
        y, log_det = self.norm(x)
        y = nn.functional.conv2d(y, self.reversal)
        x1, x2 = y.chunk(2, 1)
        return torch.cat([x1, x2 + self.net(x1)], 1), log_det


class Glow(nn.Module):
    """The released three-level flow."""

    def __init__(self, features: int, levels: int = 3, depth: int = 3):
        super().__init__()
        self.features = features
        self.levels = nn.ModuleList(
            nn.ModuleList(Step(features >> level) for _ in range(depth)) for level in range(levels)
        )

    def forward(self, u):
        """Return the mean loss in bits/dim of float32[B, D]."""
        x, log_likelihood = u[:, :, None, None], 0.0
        for i, steps in enumerate(self.levels):
            for step in steps:
                x, change = step(x)
                log_likelihood = log_likelihood + change
            if i < len(self.levels) - 1:
                x, eps = x.chunk(2, 1)
                log_likelihood = log_likelihood + _prior(eps)
        log_likelihood = log_likelihood + _prior(x)
        return -log_likelihood.mean() / (self.features * math.log(2))


def _prior(eps):
    zeros = eps.new_zeros(eps.shape)
    log_prob = torch.distributions.Normal(zeros, torch.exp(zeros)).log_prob(eps)
    return log_prob.sum((1, 2, 3))


class ReleasedAdam(torch.optim.Optimizer):
    """Adam without bias correction, decoupled decay on every parameter."""

    def __init__(self, params, lr: float = 1e-3, decay: float = 0.01):
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self):
        """Update every parameter from its gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                m = 0.9 * state["m"] + 0.1 * p.grad
                v = 0.999 * state["v"] + 0.001 * p.grad**2
                p.add_(-group["lr"] * (m / (v.sqrt() + 1e-6) + group["decay"] * p))
                state["m"], state["v"] = m, v
