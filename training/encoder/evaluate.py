"""Recall and nDCG of the vectors alone on the development sets: without other tools, and among 13,000."""
from __future__ import annotations

import math

import numpy
import torch
from tokenizers import Tokenizer
from torch import Tensor

from data import MCP_SET, Corpus
from model import QUERY_SIDE, TOOL_SIDE, Encoder
from pieces import EncoderInput, PieceLists, ToolPieces, pad, query_input, tool_input
from text import QUERY_PIECES, plain_text

POOL_TOOLS = 13_000
RANKS = 10
Figures = dict[str, dict[str, float]]


@torch.no_grad()
def encode(model: Encoder, inputs: list[EncoderInput], side: int, batch: int = 512) -> Tensor:
    """One vector a text, on the device of the model."""
    device = model.embedding.weight.device
    vectors = torch.zeros(len(inputs), model.shape.dims, device=device)
    by_length = sorted(range(len(inputs)), key=lambda index: len(inputs[index][0]))
    for start in range(0, len(inputs), batch):
        chosen = by_length[start : start + batch]
        pieces, parts = (torch.from_numpy(one).to(device) for one in pad([inputs[index] for index in chosen]))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == 'cuda'):
            vectors[chosen] = model(pieces, parts, side).vectors
    return vectors


def encode_tools(model: Encoder, tools: ToolPieces) -> Tensor:
    return encode(model, [tool_input(tools[index]) for index in range(len(tools))], TOOL_SIDE)


def encode_requests(model: Encoder, requests: PieceLists) -> Tensor:
    return encode(model, [query_input(requests[index]) for index in range(len(requests))], QUERY_SIDE)


def score(scores: Tensor, ids: list[str], relevant: list[set[str]]) -> dict[str, float]:
    """Means over the requests, in percent."""
    figures = []
    for row, wanted in zip(scores.topk(min(RANKS, len(ids))).indices.tolist(), relevant):
        hits = [ids[column] in wanted for column in row]
        gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
        best = sum(1 / math.log2(rank + 2) for rank in range(min(RANKS, len(wanted))))
        figures.append((sum(hits[:1]) / len(wanted), sum(hits[:5]) / len(wanted), gain / best))
    means = (100 * numpy.mean(figures, axis=0)).round(1).tolist()
    return dict(zip(('R@1', 'R@5', 'nDCG@10'), means))


def evaluate(model: Encoder, tokenizer: Tokenizer, corpus: Corpus) -> Figures:
    pool = [tool for tool in corpus.tools if tool.source == MCP_SET][:POOL_TOOLS]
    pool_vectors = encode_tools(model, ToolPieces(tokenizer, pool))
    figures: Figures = {}
    for one in corpus.evaluation:
        tools = encode_tools(model, ToolPieces(tokenizer, one.tools))
        requests = PieceLists(tokenizer, [plain_text(text) for text in one.requests], QUERY_PIECES)
        scores = encode_requests(model, requests) @ torch.cat((tools, pool_vectors)).T
        figures[one.name] = score(scores[:, : len(tools)], [tool.id for tool in one.tools], one.relevant)
        # Another tool with the name of a relevant one may be just as good.
        names = {tool.text['name'].lower() for tool in one.tools if tool.id in set().union(*one.relevant)}
        own = {tool.id for tool in one.tools}
        excluded = [tool.text['name'].lower() in names or tool.id in own for tool in pool]
        scores[:, len(tools) :].masked_fill_(torch.tensor(excluded, dtype=torch.bool, device=scores.device), -1)
        ids = [tool.id for tool in one.tools] + [f'pool: {tool.id}' for tool in pool]
        figures[f'{one.name}, among {len(pool):,}'] = score(scores, ids, one.relevant)
    return figures
