"""The encoder: a transformer (Vaswani et al. 2017) with layer norms before each block and GELU.

One network reads requests and tools. `src/search/encoder/encoder.ts` computes the same in Pegboard.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from text import MAX_PIECES, PADDING, PART_COUNT, VOCABULARY_SIZE

QUERY_SIDE, TOOL_SIDE = 0, 1


@dataclass(frozen=True)
class Shape:
    layers: int = 4
    width: int = 256
    heads: int = 4
    inner: int = 1_024
    pieces: int = VOCABULARY_SIZE
    positions: int = MAX_PIECES
    dims: int = 256
    token_dims: int = 48


@dataclass
class Encoded:
    """Unit vectors of texts, and of their pieces."""

    vectors: Tensor  # [texts, dims]
    tokens: Tensor  # [texts, pieces, token_dims]
    shares: Tensor  # [texts, pieces]: how much each piece counts; the sum of a text is 1
    present: Tensor  # [texts, pieces]: false for padding


def attention(query: Tensor, key: Tensor, value: Tensor, present: Tensor | None) -> Tensor:
    mask = None if present is None else present[:, None, None, :]
    if hasattr(functional, 'scaled_dot_product_attention'):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    # PyTorch 1.13
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, shape.inner)
        self.contract = nn.Linear(shape.inner, width)

    def forward(self, states: Tensor, present: Tensor | None) -> Tensor:
        texts, pieces, width = states.shape
        heads = self.query_key_value(self.attention_norm(states))
        heads = heads.view(texts, pieces, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = attention(heads[0], heads[1], heads[2], present)
        states = states + self.output(mixed.transpose(1, 2).reshape(texts, pieces, width))
        expanded = functional.gelu(self.expand(self.feed_forward_norm(states)), approximate='tanh')
        return states + self.contract(expanded)


class Encoder(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.shape = shape
        self.embedding = nn.Embedding(shape.pieces, width)
        self.position = nn.Embedding(shape.positions, width)
        self.part = nn.Embedding(PART_COUNT, width)
        self.input_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.LayerNorm(width)
        self.to_vector = nn.Linear(width, shape.dims, bias=False)
        self.to_tokens = nn.Linear(width, shape.token_dims, bias=False)
        # Logarithm of a piece's weight in the mean, in requests and in tools.
        self.pool = nn.Embedding(shape.pieces, 2)
        # Only the language model uses these; its output matrix is the embedding.
        self.language_model = nn.Linear(width, width)
        self.language_model_norm = nn.LayerNorm(width)
        self.language_model_bias = nn.Parameter(torch.zeros(shape.pieces))
        self.initialise()

    def initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for block in self.blocks:
            # Keeps the sum of all blocks at the scale of one.
            block.output.weight.data /= math.sqrt(2 * len(self.blocks))
            block.contract.weight.data /= math.sqrt(2 * len(self.blocks))
        nn.init.zeros_(self.pool.weight)
        nn.init.normal_(self.to_vector.weight, std=self.shape.width**-0.5)
        nn.init.normal_(self.to_tokens.weight, std=self.shape.width**-0.5)

    def states(self, pieces: Tensor, parts: Tensor, present: Tensor | None) -> Tensor:
        positions = self.position.weight[: pieces.shape[1]]
        states = self.input_norm(self.embedding(pieces) + positions + self.part(parts))
        for block in self.blocks:
            states = block(states, present)
        return self.output_norm(states)

    def forward(self, pieces: Tensor, parts: Tensor, side: int) -> Encoded:
        """Encodes texts; `side` is QUERY_SIDE or TOOL_SIDE."""
        present = pieces != PADDING
        states = self.states(pieces, parts, present)
        weights = self.pool(pieces)[..., side].float().exp() * present
        shares = weights / weights.sum(1, keepdim=True)
        pooled = (states * shares[..., None].to(states.dtype)).sum(1)
        vectors = functional.normalize(self.to_vector(pooled).float(), dim=-1)
        tokens = functional.normalize(self.to_tokens(states).float(), dim=-1)
        return Encoded(vectors, tokens, shares, present)

    def predict_masked(self, pieces: Tensor, masked: Tensor) -> Tensor:
        """Logits of the pieces at the positions `masked`, in texts without padding."""
        states = self.states(pieces, torch.zeros_like(pieces), None)
        states = states.gather(1, masked[..., None].expand(-1, -1, states.shape[-1]))
        states = self.language_model_norm(functional.gelu(self.language_model(states)))
        return functional.linear(states, self.embedding.weight, self.language_model_bias)
