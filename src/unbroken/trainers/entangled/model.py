"""A small causal transformer: pre-normalisation blocks, learned positions, no bias in the projections.

After Radford et al. 2019 (GPT-2), at a size that trains on one core.
"""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.before_perceptron = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, time, width] to the same shape."""
        n, time, width = x.shape
        packed = self.attention_in(self.before_attention(x)).view(n, time, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        seen = self.attention_out(seen.transpose(1, 2).reshape(n, time, width))
        x = x + functional.dropout(seen, self.dropout, self.training)
        thought = self.narrow(functional.gelu(self.widen(self.before_perceptron(x))))
        return x + functional.dropout(thought, self.dropout, self.training)


class Transformer(nn.Module):
    """Predicts the next token at every place of a sequence."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._first_values)

    @staticmethod
    def _first_values(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens int64 [n, time <= length] to logits [n, time, vocabulary]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = functional.dropout(self.token(tokens) + self.position(places), self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.last_norm(x))
        return logits


def next_token_loss(logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(cross-entropy in nats a token, share of tokens that are the likeliest), both float32 scalars.

    Args:
        logits: [n, time, vocabulary], for the first ``time`` tokens.
        tokens: int64 [n, time + 1].
    """
    target = tokens[:, 1:]
    loss = functional.cross_entropy(logits.float().flatten(0, 1), target.flatten())
    right = (logits.argmax(dim=-1) == target).float().mean()
    return loss, right
