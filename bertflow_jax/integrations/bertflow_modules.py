"""Modules of sentence-transformers for what its own cannot say, in PyTorch alone.

`SentenceEncoder.save_pretrained` of bertflow_jax copies this file into the folder of a model, where
`SentenceTransformer(folder, trust_remote_code=True)` runs it. It reads two files of each module's
folder, config.json and model.safetensors, opens no other and no connection.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


class _Saved(nn.Module):
    """A module that is made from the fields of its config.json and holds frozen weights."""

    config: dict[str, Any]

    @classmethod
    def load(cls, input_path: str) -> "_Saved":
        """Read the module from its folder; sentence-transformers calls this."""
        folder = Path(input_path)
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        module = cls(**config)
        if module.state_dict():
            module.load_state_dict(load_file(folder / _WEIGHTS))
        return module.requires_grad_(False)

    def save(self, output_path: str, safe_serialization: bool = True) -> None:
        """Write the module into its folder, and this file into the model's."""
        folder = Path(output_path)
        (folder / _CONFIG).write_text(json.dumps(self.config, indent=2), encoding="utf-8")
        state = {name: value.contiguous() for name, value in self.state_dict().items()}
        if state:
            save_file(state, folder / _WEIGHTS)
        shutil.copyfile(__file__, folder.parent / Path(__file__).name)

    def get_embedding_dimension(self) -> int:
        """Return the length of the vectors it gives."""
        raise NotImplementedError

    def get_sentence_embedding_dimension(self) -> int:
        """Return the same, under the name before sentence-transformers 5.4."""
        return self.get_embedding_dimension()


class LayerPooling(_Saved):
    """Pools the tokens of chosen layers, then averages or concatenates the layers.

    Its Transformer must give all hidden states: `output_hidden_states` in the model's config.json.
    """

    def __init__(self, hidden_size: int, layers: list[int], tokens: str, reduce: str):
        """Take the fields of config.json.

        Args:
          hidden_size: D of the encoder.
          layers: 0 is the embedding output, L the last encoder layer.
          tokens: `mean`, `max`, `cls`, or `pooler`: tanh(dense(h_0)) of the last layer.
          reduce: `mean` or `concat` over the layers.
        """
        super().__init__()
        if tokens not in ("mean", "max", "cls", "pooler") or reduce not in ("mean", "concat"):
            raise ValueError(f"tokens={tokens!r}, reduce={reduce!r} are unknown to this file")
        self.config = {
            "hidden_size": hidden_size,
            "layers": layers,
            "tokens": tokens,
            "reduce": reduce,
        }
        if tokens == "pooler":
            self.dense = nn.Linear(hidden_size, hidden_size)

    def get_embedding_dimension(self) -> int:
        """Return the length of the vectors it gives."""
        count = len(self.config["layers"]) if self.config["reduce"] == "concat" else 1
        return self.config["hidden_size"] * count

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Set `sentence_embedding`, float[B, E]."""
        if "cu_seq_lens_q" in features:
            raise RuntimeError(
                "this model's pooling needs padded batches: load it with "
                'model_kwargs={"attn_implementation": "sdpa"}'
            )
        states = features.get("all_layer_embeddings")
        if states is None:
            raise RuntimeError(
                "this model's pooling reads several layers, and the Transformer gave the last one "
                "alone: set output_hidden_states to true in config.json"
            )
        mask = features["attention_mask"]
        pooled = [self._tokens(states[layer], mask) for layer in self.config["layers"]]
        if self.config["reduce"] == "concat":
            vectors = torch.cat(pooled, dim=-1)
        else:
            vectors = torch.stack(pooled).mean(dim=0)
        if self.config["tokens"] == "pooler":
            vectors = torch.tanh(self.dense(vectors))
        features["sentence_embedding"] = vectors
        return features

    def _tokens(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Reduce the tokens of one layer float[B, T, D], mask int[B, T], to float[B, D]."""
        inside = mask.unsqueeze(-1).to(hidden.dtype)
        if self.config["tokens"] == "mean":
            return (hidden * inside).sum(dim=1) / inside.sum(dim=1).clamp(min=1)
        if self.config["tokens"] == "max":
            return hidden.masked_fill(inside == 0, float("-inf")).max(dim=1).values
        first = mask.to(torch.int32).argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=hidden.device), first]


class BertFlow(_Saved):
    """The fitted flow of BERT-flow, embedding -> latent (Li et al., EMNLP 2020).

    Level i changes the first D // 2**i channels; what the next level leaves out is factored out:
    z = [eps of level 0, eps of level 1, ..., output of the last level].
    """

    def __init__(
        self,
        features: int,
        levels: int,
        depth: int,
        width: int,
        coupling: str,
        permutation: str,
        activation: str,
    ):
        """Take the fields of config.json: D, and the shape of the flow as in bertflow_jax."""
        super().__init__()
        known = {
            "coupling": (coupling, ("additive", "affine")),
            "permutation": (permutation, ("reverse", "plu")),
            "activation": (activation, ("relu", "gatu")),
        }
        for name, (value, choices) in known.items():
            if value not in choices:
                raise ValueError(f"{name}={value!r} is unknown to this file")
        self.config = {
            "features": features,
            "levels": levels,
            "depth": depth,
            "width": width,
            "coupling": coupling,
            "permutation": permutation,
            "activation": activation,
        }
        options = (width, coupling == "affine", permutation == "plu", activation == "gatu")
        steps = [[_Step(features >> i, *options) for _ in range(depth)] for i in range(levels)]
        self.levels = nn.ModuleList(map(nn.ModuleList, steps))

    def get_embedding_dimension(self) -> int:
        """Return D."""
        return self.config["features"]

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace `sentence_embedding`, float[B, D], by its latent."""
        x, left = features["sentence_embedding"], []
        for number, steps in enumerate(self.levels, 1):
            for step in steps.children():
                x = step(x)
            if number < len(self.levels):
                half = x.shape[-1] // 2
                left.append(x[:, half:])
                x = x[:, :half]
        features["sentence_embedding"] = torch.cat([*left, x], dim=-1)
        return features


class _Step(nn.Module):
    """ActNorm -> permutation -> coupling.

    y = (x + bias) * scale; reversed, or y @ mixing (a PLU product); then [y1, y2 + t(y1)], or
    [y1, (y2 + t(y1)) * sigmoid(r(y1) + 2)] with t the even and r the odd outputs of the network,
    whose own ActNorms are part of its dense layers.
    """

    bias: Tensor
    scale: Tensor
    mixing: Tensor | None

    def __init__(self, channels: int, width: int, affine: bool, plu: bool, gatu: bool):
        super().__init__()
        self.affine, self.gatu = affine, gatu
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("mixing", torch.eye(channels) if plu else None)
        kept, changed = channels // 2, channels - channels // 2
        self.hidden1 = nn.Linear(kept, width)
        if gatu:
            self.hidden2_tanh = nn.Linear(width, width)
            self.hidden2_sigmoid = nn.Linear(width, width)
        else:
            self.hidden2 = nn.Linear(width, width)
        self.out = nn.Linear(width, 2 * changed if affine else changed)

    def forward(self, x: Tensor) -> Tensor:
        """Map float[B, C] to float[B, C]."""
        y = (x + self.bias) * self.scale
        y = y.flip(-1) if self.mixing is None else y @ self.mixing
        half = y.shape[-1] // 2
        y1, y2 = y[:, :half], y[:, half:]
        h = functional.relu(self.hidden1(y1))
        if self.gatu:
            h = torch.tanh(self.hidden2_tanh(h)) * torch.sigmoid(self.hidden2_sigmoid(h))
        else:
            h = functional.relu(self.hidden2(h))
        raw = self.out(h)
        if not self.affine:
            return torch.cat([y1, y2 + raw], dim=-1)
        scale = torch.sigmoid(raw[:, 1::2] + 2.0)
        return torch.cat([y1, (y2 + raw[:, 0::2]) * scale], dim=-1)
