"""The hybrid language model in PyTorch: what train.py trains and what the C program must equal.

Every fourth layer attends with softmax over all earlier tokens, the others keep a matrix state by the
gated delta rule (Yang, Kautz, Hatamizadeh: Gated Delta Networks, 2024). The block follows Qwen3-Next
and Qwen3.5: short convolution, gates, normalised queries and keys, partial rotary embedding, SwiGLU.
Tokens are bytes.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 8
    attention_every: int = 4  # layers 3, 7, ... attend
    width: int = 160
    feed_forward: int = 352
    query_heads: int = 4
    key_value_heads: int = 2
    head_size: int = 32
    rotary_size: int = 16  # channels of a head that are rotated
    rotary_base: float = 10000.0
    key_heads: int = 2  # of the delta layers
    state_heads: int = 4
    state_size: int = 32  # channels of a key and of a value
    taps: int = 4
    epsilon: float = 1e-6

    def is_attention(self, layer: int) -> bool:
        return layer % self.attention_every == self.attention_every - 1


class RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotate(x, size: int, base: float):
    """Rotates channels c and c + size/2 of [B, T, heads, D] by the angle position * base^(-2c/size)."""
    half = size // 2
    frequency = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None, None] * frequency
    a, b, rest = x[..., :half], x[..., half:size], x[..., size:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        queries, keys = c.query_heads * c.head_size, c.key_value_heads * c.head_size
        self.query = nn.Linear(c.width, queries, bias=False)
        self.gate = nn.Linear(c.width, queries, bias=False)
        self.key = nn.Linear(c.width, keys, bias=False)
        self.value = nn.Linear(c.width, keys, bias=False)
        self.query_norm = RMSNorm(c.head_size, c.epsilon)
        self.key_norm = RMSNorm(c.head_size, c.epsilon)
        self.output = nn.Linear(queries, c.width, bias=False)

    def forward(self, x):
        c, (batch, tokens, _) = self.c, x.shape
        heads = lambda y, n: y.view(batch, tokens, n, c.head_size)
        q = rotate(self.query_norm(heads(self.query(x), c.query_heads)), c.rotary_size, c.rotary_base)
        k = rotate(self.key_norm(heads(self.key(x), c.key_value_heads)), c.rotary_size, c.rotary_base)
        v = heads(self.value(x), c.key_value_heads)
        group = c.query_heads // c.key_value_heads
        k, v = (y.repeat_interleave(group, 2).transpose(1, 2) for y in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, tokens, -1) * torch.sigmoid(self.gate(x)))


def invert_unit_lower(a):
    """(I + a)^-1 of strictly lower triangular a [.., n, n], n a power of two, in blocks that double:
    [[P, 0], [B, Q]]^-1 = [[P^-1, 0], [-Q^-1 B P^-1, Q^-1]]."""
    n = a.shape[-1]
    index = torch.arange(n, device=a.device)
    inverse = torch.eye(n, device=a.device, dtype=a.dtype).expand_as(a)
    size = 1
    while size < n:
        block = index // size
        below = (block[:, None] % 2 == 1) & (block[None, :] == block[:, None] - 1)
        inverse = inverse - inverse @ torch.where(below, a, 0.0) @ inverse
        size *= 2
    return inverse


def gated_delta(q, k, v, decay, beta, chunk: int = 32):
    """Gated delta rule over [B, heads, T, D], `decay` the log of the factor, in chunks (WY form).

    St = exp(g_t) St-1;  St += k_t (beta_t (v_t - St^T k_t))^T;  o_t = St^T q_t / sqrt(D)
    """
    batch, heads, tokens, size = q.shape
    pad = -tokens % chunk
    if pad:
        q, k, v = (F.pad(y, (0, 0, 0, pad)) for y in (q, k, v))
        decay, beta = (F.pad(y, (0, pad)) for y in (decay, beta))
    split = lambda y: y.reshape(batch, heads, -1, chunk, *y.shape[3:])
    q, k, v, decay, beta = (split(y) for y in (q / math.sqrt(size), k, v, decay, beta))
    total = decay.cumsum(-1)
    lower = torch.ones(chunk, chunk, device=q.device, dtype=torch.bool).tril()
    ratio = torch.exp(torch.where(lower, total[..., :, None] - total[..., None, :], 0.0)) * lower
    inverse = invert_unit_lower((k * beta[..., None] @ k.mT * ratio).tril(-1))
    scores = q @ k.mT * ratio
    own = inverse @ (v * beta[..., None])
    carried = inverse @ (k * (beta * total.exp())[..., None])
    to_end = k * torch.exp(total[..., -1:] - total)[..., None]
    from_start = q * total.exp()[..., None]
    keep = total[..., -1].exp()
    state, outputs = q.new_zeros(batch, heads, size, v.shape[-1]), []
    for i in range(q.shape[2]):
        u = own[:, :, i] - carried[:, :, i] @ state
        outputs.append(from_start[:, :, i] @ state + scores[:, :, i] @ u)
        state = keep[:, :, i, None, None] * state + to_end[:, :, i].mT @ u
    return torch.cat(outputs, 2)[:, :, :tokens]


class Delta(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.keys, self.values = c.key_heads * c.state_size, c.state_heads * c.state_size
        channels = 2 * self.keys + self.values
        self.mixed = nn.Linear(c.width, channels, bias=False)  # query, key, value
        self.gate = nn.Linear(c.width, self.values, bias=False)
        self.decay = nn.Linear(c.width, c.state_heads, bias=False)
        self.beta = nn.Linear(c.width, c.state_heads, bias=False)
        self.convolution = nn.Parameter(torch.randn(channels, 1, c.taps) / math.sqrt(c.taps))
        self.a_log = nn.Parameter(torch.linspace(1, 8, c.state_heads).log())
        self.dt_bias = nn.Parameter(torch.full((c.state_heads,), math.log(math.expm1(0.02))))
        self.norm = RMSNorm(c.state_size, c.epsilon)
        self.output = nn.Linear(self.values, c.width, bias=False)

    def forward(self, x):
        c, (batch, tokens, _) = self.c, x.shape
        mixed = F.pad(self.mixed(x).mT, (c.taps - 1, 0))
        mixed = F.silu(F.conv1d(mixed, self.convolution, groups=mixed.shape[1])).mT
        q, k, v = mixed.split([self.keys, self.keys, self.values], -1)
        heads = lambda y, n: y.view(batch, tokens, n, c.state_size).transpose(1, 2)
        unit = lambda y: y * torch.rsqrt(y.pow(2).sum(-1, keepdim=True) + 1e-6)
        group = c.state_heads // c.key_heads
        q, k = (unit(heads(y, c.key_heads)).repeat_interleave(group, 1) for y in (q, k))
        decay = -self.a_log.exp() * F.softplus(self.decay(x) + self.dt_bias)
        beta = torch.sigmoid(self.beta(x))
        y = gated_delta(q, k, heads(v, c.state_heads), decay.mT, beta.mT)
        y = self.norm(y.transpose(1, 2)).reshape(batch, tokens, -1)
        return self.output(y * F.silu(self.gate(x)))


class FeedForward(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.gate = nn.Linear(c.width, c.feed_forward, bias=False)
        self.up = nn.Linear(c.width, c.feed_forward, bias=False)
        self.down = nn.Linear(c.feed_forward, c.width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, c: Config, layer: int):
        super().__init__()
        self.mixer_norm = RMSNorm(c.width, c.epsilon)
        self.mixer = Attention(c) if c.is_attention(layer) else Delta(c)
        self.feed_forward_norm = RMSNorm(c.width, c.epsilon)
        self.feed_forward = FeedForward(c)

    def forward(self, x):
        x = x + self.mixer(self.mixer_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class HybridLM(nn.Module):
    def __init__(self, c: Config = Config()):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(256, c.width)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.layers))
        self.norm = RMSNorm(c.width, c.epsilon)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and not name.startswith("embedding"):
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
            if name.endswith(("mixer.output.weight", "down.weight")):
                nn.init.zeros_(weight)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embedding.weight)
