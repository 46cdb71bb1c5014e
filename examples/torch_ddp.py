"""Trains a small network by DistributedDataParallel over gcoll, and shows that all replicas are the same bits.

torchrun --nproc_per_node 3 -r 9:1 -t 9:1 examples/torch_ddp.py     (docs/torch.md)
"""

import hashlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gcoll.torch  # registers the backend

dist.init_process_group("gcoll")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # every replica starts with the same parameters
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.Generator().manual_seed(rank)  # every rank has data of its own
for step in range(200):
    x = torch.randn(64, 8, generator=data)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
    optimizer.zero_grad()
    loss.backward()  # gcoll averages the gradients
    optimizer.step()
    if rank == 0 and step % 50 == 0:
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
bits = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]
everyone = [None] * size
dist.all_gather_object(everyone, bits)
if rank == 0:
    print(f"{size} replicas: " + ("all the same" if len(set(everyone)) == 1 else f"different: {everyone}"), flush=True)
dist.destroy_process_group()
