"""Writes page/example.pt: a small model for those who have none at hand.

python web/example.py
"""

from __future__ import annotations

from pathlib import Path

# The place of a file is part of a trace.
SOURCE = """
import torch
from torch import nn


class Tagger(nn.Module):
    \"\"\"Marks every token of a text with one of five tags.\"\"\"

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.encoder = nn.LSTM(24, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))

    def forward(self, tokens):
        states, _ = self.encoder(self.embed(tokens))
        return self.head(self.norm(states)).view(2, -1, 5).log_softmax(-1)


torch.manual_seed(0)
example = torch.jit.trace(Tagger().eval(), (torch.randint(100, (2, 7)),))
"""

if __name__ == "__main__":
    names: dict[str, object] = {"__name__": "tagger"}
    exec(compile(SOURCE, "tagger.py", "exec"), names)
    names["example"].save(str(Path(__file__).parent / "page" / "example.pt"))  # type: ignore[attr-defined]
