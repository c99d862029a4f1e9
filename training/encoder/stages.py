"""The stages of the training, and checkpoints within them."""
from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import losses
from batches import RELEVANT_GROUPS
from data import MCP_SET
from evaluate import encode_requests, encode_tools
from model import QUERY_SIDE, TOOL_SIDE, Encoder
from pieces import CorpusPieces

Batch = dict[str, Tensor]
CHECKPOINT_SECONDS = 180
LOG_STEPS = 100
LEAST_RATE = 0.02
MINED_TOOLS = 30
# A tool nearer than this share of the right one's similarity may be just as right.
LIKELY_RELEVANT = 0.97
FARTHEST = -2.0


@dataclass(frozen=True)
class Stage:
    name: str
    steps: int
    batch: int
    rate: float


class Run:
    """State of a training: the model, and what a resumed run needs."""

    def __init__(self, out: Path, model: Encoder, settings: dict[str, Any], workers: int) -> None:
        self.file = out / 'checkpoint.pt'
        self.model = model
        self.device = model.embedding.weight.device
        self.workers = workers
        self.started = time.monotonic()
        self.state: dict[str, Any] = {'settings': settings, 'done': [], 'stage': '', 'step': 0}
        if self.file.exists():
            self.state = torch.load(self.file, map_location='cpu')
            if self.state['settings'] != settings:
                raise SystemExit(
                    f'{self.file}: written with {self.state["settings"]}, not with {settings}. '
                    'Use the same options, or another --out.'
                )
            model.load_state_dict(self.state['model'])
            done = ', '.join(self.state['done']) or 'none'
            stage = self.state['stage'] or 'the next'
            self.log(f'resumes: finished stages {done}; {self.state["step"]} steps of {stage}')
        else:
            self.save()

    def log(self, text: str) -> None:
        print(f'{time.monotonic() - self.started:6.0f} s  {text}', flush=True)

    def save(self) -> None:
        self.state['model'] = self.model.state_dict()
        unfinished = self.file.with_suffix('.tmp')
        torch.save(self.state, unfinished)
        unfinished.replace(self.file)

    def train(self, stage: Stage, batches: Dataset, loss_of: Callable[[Batch], Tensor]) -> None:
        """Runs the missing steps of a stage. `batches[step]` is a batch."""
        if stage.name in self.state['done']:
            return
        optimizer = create_optimizer(self.model)
        start = 0
        if self.state['stage'] == stage.name:
            start = self.state['step']
            optimizer.load_state_dict(self.state['optimizer'])
        loader = DataLoader(batches, batch_size=None, sampler=range(start, stage.steps), num_workers=self.workers)
        self.model.train()
        saved = time.monotonic()
        for step, batch in enumerate(loader, start):
            for group in optimizer.param_groups:
                group['lr'] = stage.rate * rate_factor(step / stage.steps)
            batch = {name: tensor.to(self.device) for name, tensor in batch.items()}
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == 'cuda'):
                loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            if (step + 1) % LOG_STEPS == 0 or step + 1 == stage.steps:
                self.log(f'{stage.name}, step {step + 1} of {stage.steps}, loss {loss.item():.3f}')
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                self.state.update(stage=stage.name, step=step + 1, optimizer=optimizer.state_dict())
                self.save()
                saved = time.monotonic()
        self.state['done'].append(stage.name)
        self.state.update(stage='', step=0, optimizer=None)
        self.save()


def create_optimizer(model: Encoder) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{'params': matrices, 'weight_decay': 0.01}, {'params': vectors, 'weight_decay': 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6)


def rate_factor(done: float, warm_up: float = 0.05) -> float:
    """Linear warm-up, then a cosine."""
    if done < warm_up:
        return max(LEAST_RATE, done / warm_up)
    cosine = (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2
    return LEAST_RATE + (1 - LEAST_RATE) * cosine


def language_model_loss(model: Encoder, batch: Batch) -> Tensor:
    logits = model.predict_masked(batch['pieces'], batch['masked'])
    return functional.cross_entropy(logits.flatten(0, 1).float(), batch['wanted'].flatten())


def contrastive_loss(model: Encoder, batch: Batch) -> Tensor:
    queries = model(batch['query_pieces'], batch['query_parts'], QUERY_SIDE)
    tools = model(batch['tool_pieces'], batch['tool_parts'], TOOL_SIDE)
    return losses.contrastive(queries.vectors @ tools.vectors.T, batch['relevant'], batch['groups'])


def refining_loss(model: Encoder, batch: Batch, teacher: Encoder | None) -> Tensor:
    """Contrastive with hard negatives, late interaction, and distillation if there is a teacher."""
    query_texts, tool_texts = (
        (batch[f'{name}_pieces'], batch[f'{name}_parts'], side)
        for name, side in (('query', QUERY_SIDE), ('tool', TOOL_SIDE))
    )
    queries, tools = model(*query_texts), model(*tool_texts)
    relevant, groups = batch['relevant'], batch['groups']
    loss = losses.contrastive(queries.vectors @ tools.vectors.T, relevant, groups)
    if teacher is not None:
        with torch.no_grad():
            taught_queries, taught_tools = teacher(*query_texts).vectors, teacher(*tool_texts).vectors
        loss = 0.5 * loss + losses.distillation(queries, tools, taught_queries, taught_tools)
    late = []
    for rows, columns in zip(batch['late_rows'], batch['late_columns']):
        own = torch.arange(len(rows), device=rows.device)
        excluded = losses.not_negatives(relevant[rows], groups[columns], own, groups[rows])
        late.append(losses.late_interaction(queries, tools, rows, columns, excluded))
    return loss + torch.stack(late).mean()


@torch.no_grad()
def mine_negatives(model: Encoder, corpus: CorpusPieces) -> numpy.ndarray:
    """For each request the nearest wrong tools of its set, -1 for none."""
    tools, requests = encode_tools(model, corpus.tools), encode_requests(model, corpus.requests)
    device = tools.device
    groups = torch.from_numpy(corpus.tool_groups).to(device)
    negatives = numpy.full((len(requests), MINED_TOOLS), -1, dtype=numpy.int64)
    for source in numpy.unique(corpus.request_sources):
        tool_source = MCP_SET if source in ('written', 'translated') else source
        candidates = torch.from_numpy(numpy.flatnonzero(corpus.tool_sources == tool_source)).to(device)
        chosen = numpy.flatnonzero(corpus.request_sources == source)
        for rows in numpy.array_split(chosen, -(-len(chosen) // 1_024)):
            relevant = torch.full((len(rows), RELEVANT_GROUPS), -1, dtype=torch.long, device=device)
            own = torch.tensor([corpus.request_tools[row][0] for row in rows], device=device)
            for at, row in enumerate(rows):
                found = groups[torch.tensor(corpus.request_tools[row][:RELEVANT_GROUPS], device=device)]
                relevant[at, : len(found)] = found
            vectors = requests[torch.from_numpy(rows).to(device)]
            scores = vectors @ tools[candidates].T
            limit = LIKELY_RELEVANT * (vectors * tools[own]).sum(1, keepdim=True)
            wrong = (relevant[:, :, None] == groups[candidates]).any(1) | (scores > limit)
            best = scores.masked_fill(wrong, FARTHEST).topk(min(MINED_TOOLS, len(candidates)))
            mined = torch.where(best.values > FARTHEST, candidates[best.indices], torch.full_like(best.indices, -1))
            negatives[rows, : mined.shape[1]] = mined.cpu().numpy()
    return negatives
