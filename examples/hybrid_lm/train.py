"""Trains the model of hybrid_lm on a text and writes weights.safetensors and expected.safetensors.

    apt-get install bible-kjv
    bible -l9000 gen1:1-rev22:21 >text.txt
    python3 train.py --text text.txt --minutes 1.3

About a minute on one large GPU; on a CPU give it an hour (--minutes 60 --batch 16). Needs torch and safetensors.
"""

import argparse
import json
import math
import pathlib
import re
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from model import Config, HybridLM

PROMPT = b"In the beginning was the Word, and the LORD said unto Moses, Speak unto the children of Israel."


def read_text(path: pathlib.Path) -> torch.Tensor:
    text = re.sub(r"(?m)^ +", "", path.read_text(encoding="ascii"))
    return torch.frombuffer(bytearray(text.strip().encode()), dtype=torch.uint8)


def batches(data, count: int, length: int, generator):
    starts = torch.randint(len(data) - length - 1, (count, 1), generator=generator)
    rows = data[starts + torch.arange(length + 1)].long()
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())


@torch.no_grad()
def bits_per_byte(model, data, device, length=512):
    rows = data[: (len(data) - 1) // length * length + 1].long()
    x, y = rows[:-1].view(-1, length).to(device), rows[1:].view(-1, length).to(device)
    parts = [loss_of(model, a, b) * len(a) for a, b in zip(x.split(64), y.split(64))]
    return float(torch.stack(parts).sum()) / len(x) / math.log(2)


def captured_step(model, optimizer, x, y):
    """One step as a CUDA graph: launching its thousands of small kernels costs more than running them."""

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.detach()

    if x.device.type != "cuda":
        return step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return lambda: (graph.replay(), loss)[1]


def train(model, data, held_out, device, o):
    groups = [
        {"params": [p for p in model.parameters() if p.ndim == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim != 2], "weight_decay": 0.0},
    ]
    rate = torch.tensor(1e-4, device=device) if device == "cuda" else 1e-4
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), capturable=device == "cuda")
    generator = torch.Generator().manual_seed(o.seed)
    x, y = (t.to(device) for t in batches(data, o.batch, o.length, generator))
    step = captured_step(model, optimizer, x, y)
    begin, count, report = time.time(), 0, 0.0
    while True:
        done = (time.time() - begin) / (60 * o.minutes)
        if done >= 1:
            return count
        now = o.rate * min(1.0, (count + 1) / 200) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"].fill_(now) if device == "cuda" else group.update(lr=now)
        for to, new in zip((x, y), batches(data, o.batch, o.length, generator)):
            to.copy_(new, non_blocking=True)
        loss = step()
        count += 1
        if done >= report:
            bits = bits_per_byte(model, held_out, device)
            print(f"step {count}: loss {float(loss) / math.log(2):.3f}, held out {bits:.3f} bits a byte", flush=True)
            report = done + 0.1


@torch.no_grad()
def sample(model, prompt: bytes, count: int, device) -> bytes:
    tokens = torch.tensor([list(prompt)], device=device)
    for _ in range(count):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    return bytes(tokens[0].tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=1.3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    o = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(o.seed)
    torch.set_float32_matmul_precision("high")
    data = read_text(o.text)
    held_out, data = data[-len(data) // 50 :], data[: -len(data) // 50]
    model = HybridLM().to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(data)} bytes of text, {device}")
    steps = train(model, data, held_out, device, o)

    weights = {name: p.detach().to("cpu", torch.float16).contiguous() for name, p in model.named_parameters()}
    model = HybridLM()
    model.load_state_dict({name: p.float() for name, p in weights.items()})
    model.eval()
    bits = bits_per_byte(model.to(device), held_out, device)
    print(f"{steps} steps; rounded to f16: {bits:.4f} bits a held-out byte")
    note = {"config": json.dumps(Config().__dict__), "steps": str(steps), "bits_per_byte": f"{bits:.4f}"}
    save_file(weights, o.output / "weights.safetensors", metadata=note)
    model.cpu()
    torch.set_float32_matmul_precision("highest")
    tokens = torch.tensor([list(PROMPT)])
    with torch.no_grad():
        logits = model(tokens)[0]
    save_file({"tokens": tokens[0].int(), "logits": logits.contiguous()}, o.output / "expected.safetensors")
    print(sample(model, b"And the LORD spake unto", 300, "cpu").decode("latin-1"))


if __name__ == "__main__":
    main()
