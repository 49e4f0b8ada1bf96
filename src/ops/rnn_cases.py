"""Cases of src/ops/rnn.cpp: recurrent layers and cells."""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.cases import B, S, case, f16, f64, i64, x

# ---- layers without and with an initial state
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    for layers, both, bias, first in (
        (1, False, True, True),
        (1, True, True, False),
        (2, False, False, False),
        (2, True, True, True),
        (1, True, False, True),
    ):
        net = kind(4, 6, num_layers=layers, bidirectional=both, bias=bias, batch_first=first)
        sizes = (B, S, 4) if first else (S, B, 4)
        n = layers * (2 if both else 1)
        case(net, x[sizes])
        if kind is nn.LSTM:
            case(lambda x, h, c: net(x, (h, c)), x[sizes], x[n, B, 6], x[n, B, 6])
        else:
            case(net, x[sizes], x[n, B, 6])
case(nn.RNN(4, 6, nonlinearity="relu"), x[S, B, 4])
case(nn.RNN(4, 6, nonlinearity="relu", bidirectional=True, num_layers=2), x[S, B, 4], x[4, B, 6])

# ---- without a batch
for net in (nn.RNN(4, 6), nn.GRU(4, 6, batch_first=True, bidirectional=True), nn.GRU(4, 6, num_layers=2)):
    case(net, x[S, 4])
case(nn.GRU(4, 6), x[S, 4], x[1, 6])
case(nn.LSTM(4, 6, bidirectional=True), x[S, 4])
unbatched = nn.LSTM(4, 6, num_layers=2)
case(lambda x, h, c: unbatched(x, (h, c)), x[S, 4], x[2, 6], x[2, 6])

# ---- parts of the result, and what surrounds it
lstm = nn.LSTM(4, 6, batch_first=True)
gru = nn.GRU(4, 6, batch_first=True)
head = nn.Linear(6, 5)
case(lambda x: head(lstm(x)[0][:, -1]), x[B, S, 4])
case(lambda x: head(gru(x)[0][:, -1, :]), x[B, S, 4])
case(lambda x: head(lstm(x)[1][0][-1]), x[B, S, 4])
case(lambda x: lstm(x, (torch.zeros(1, x.size(0), 6), torch.zeros(1, x.size(0), 6)))[0], x[B, S, 4])
case(lambda x: gru(x, torch.ones(1, x.size(0), 6)), x[B, S, 4])
case(nn.LSTM(4, 6, num_layers=2, dropout=0.5), x[S, B, 4])
case(nn.LSTM(4, 1), x[S, B, 4])
case(nn.LSTM(1, 1, batch_first=True), x[B, S, 1])
for cell in (nn.LSTM, nn.GRU, nn.RNN):
    case(cell(4, 6).double(), f64[S, B, 4], rtol=1e-5, atol=1e-6, why="computed in float32")
case(nn.LSTM(4, 6, proj_size=3), x[S, B, 4], xfail="an LSTM with projections")


# ---- packed sequences: lengths as an input and as constants, sorted or not
class Packed(nn.Module):
    """A recurrent layer on sequences of different lengths."""

    def __init__(self, rnn: nn.Module, *, enforce_sorted: bool = True, total: bool = False, value: float = 0.0) -> None:
        super().__init__()
        self.rnn, self.enforce_sorted, self.total, self.value = rnn, enforce_sorted, total, value

    def extra_repr(self) -> str:
        return f"{self.enforce_sorted}, {self.total}, {self.value}"

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = self.rnn.batch_first
        packed = pack_padded_sequence(x, lengths, first, self.enforce_sorted)
        hx = None if not states else states[0] if len(states) == 1 else states
        out, last = self.rnn(packed, hx)
        total = x.size(1 if first else 0) if self.total else None
        padded, ends = pad_packed_sequence(out, first, self.value, total)
        return (padded, ends, *(last if isinstance(last, tuple) else (last,)))


falling = i64(values=(5, 3, 3, 2, 1))
mixed = i64(values=(2, 5, 1, 4))
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    for layers, both, bias, first in (
        (1, False, True, True),
        (1, True, True, False),
        (2, False, False, True),
        (2, True, True, True),
    ):
        net = kind(4, 6, num_layers=layers, bidirectional=both, bias=bias, batch_first=first)
        sizes = (B, S >= 5, 4) if first else (S >= 5, B, 4)
        n = layers * (2 if both else 1)
        states = [x[n, B, 6]] * (2 if kind is nn.LSTM else 1)
        case(Packed(net), x[sizes], falling[B])
        case(Packed(net, enforce_sorted=False), x[sizes], mixed[B], *states)
    case(Packed(kind(4, 6), enforce_sorted=False), x[6, 4, 4], torch.tensor([2, 5, 1, 4]))
lstm = nn.LSTM(4, 6, batch_first=True)
case(Packed(nn.RNN(4, 6, nonlinearity="relu")), x[S >= 5, B, 4], falling[B])
case(Packed(lstm), x[3, S >= 5, 4], torch.tensor([5, 3, 2]))
case(Packed(lstm, total=True), x[B, S >= 5, 4], falling[B])
case(Packed(lstm, total=True, value=-1.5), x[B, S >= 5, 4], falling[B])
case(Packed(lstm, value=2.5, enforce_sorted=False), x[B, S >= 5, 4], mixed[B])


def between(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Something happens to the packed elements; and they are a result."""
    packed = pack_padded_sequence(x, lengths, True)
    data, sizes = torch.relu(packed.data) + 1, packed.batch_sizes
    padded, ends = pad_packed_sequence(PackedSequence(data, sizes), True)
    return padded, ends, data


case(between, x[B, S >= 5, 4], falling[B])
case(lambda a, n: pad_packed_sequence(pack_padded_sequence(a, n, True), True), x[B, S >= 5, 4, 2], falling[B])
case(lambda a, n: torch.ops.aten._pad_packed_sequence(a, n, False, 0.0, 7)[0], x[9, 4], i64(values=(4, 3, 1, 1))[4])

# ---- cells
for cell in (nn.RNNCell(4, 6), nn.RNNCell(4, 6, nonlinearity="relu", bias=False), nn.GRUCell(4, 6), nn.GRUCell(4, 6, bias=False)):
    case(cell, x[B, 4])
    case(cell, x[B, 4], x[B, 6])
    case(cell, x[4])
lstm_cell = nn.LSTMCell(4, 6)
bare_cell = nn.LSTMCell(4, 6, bias=False)
case(lstm_cell, x[B, 4])
case(lstm_cell, x[4])
case(lambda x, h, c: lstm_cell(x, (h, c)), x[B, 4], x[B, 6], x[B, 6])
case(lambda x, h, c: bare_cell(x, (h, c)), x[B, 4], x[B, 6], x[B, 6])
case(nn.GRUCell(4, 6).half(), f16[B, 4])
