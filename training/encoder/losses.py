"""What each stage minimises."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from model import Encoded

# Factor of cosines before softmax, for vectors and for late interaction.
SCALE = 20.0
LATE_SCALE = 30.0
EXCLUDED = -1e4


def not_negatives(relevant: Tensor, groups: Tensor, own: Tensor, own_groups: Tensor) -> Tensor:
    """Which tools are no negatives of a request: those of a relevant group, except the request's own tool.

    relevant: [requests, 6] groups, -1 for none; groups: [tools]; own: [requests] column of the own tool.
    """
    same = (relevant[:, :, None] == groups).any(1) | (own_groups[:, None] == groups)
    same[torch.arange(len(own), device=own.device), own] = False
    return same


def contrastive(similarities: Tensor, relevant: Tensor, groups: Tensor) -> Tensor:
    """Symmetric cross entropy. Tool i belongs to request i; further tools are negatives of all requests."""
    count = len(similarities)
    own = torch.arange(count, device=similarities.device)
    scores = SCALE * similarities
    scores = scores.masked_fill(not_negatives(relevant, groups, own, groups[:count]), EXCLUDED)
    return functional.cross_entropy(scores, own) + functional.cross_entropy(scores[:, :count].T, own)


def late_similarities(queries: Encoded, tools: Encoded, rows: Tensor, columns: Tensor) -> Tensor:
    """ColBERT (Khattab, Zaharia 2020), weighted: each piece of a request against its nearest piece of a tool."""
    cosines = torch.einsum('qld,nkd->qnlk', queries.tokens[rows], tools.tokens[columns]).float()
    nearest = cosines.masked_fill(~tools.present[columns][None, :, None], -1).amax(3)
    return (nearest * queries.shares[rows][:, None]).sum(2)


def late_interaction(queries: Encoded, tools: Encoded, rows: Tensor, columns: Tensor, excluded: Tensor) -> Tensor:
    """Cross entropy of some requests against some tools; the first columns are the own tools of the rows."""
    scores = LATE_SCALE * late_similarities(queries, tools, rows, columns)
    own = torch.arange(len(rows), device=rows.device)
    return functional.cross_entropy(scores.masked_fill(excluded, EXCLUDED), own)


def distillation(queries: Encoded, tools: Encoded, taught_queries: Tensor, taught_tools: Tensor) -> Tensor:
    """Order of the tools as the teacher sees it, and the teacher's vectors."""
    scores = functional.log_softmax(SCALE * queries.vectors @ tools.vectors.T, 1)
    taught = functional.softmax(SCALE * taught_queries @ taught_tools.T, 1)
    order = functional.kl_div(scores, taught, reduction='batchmean')
    distance = 2 - (queries.vectors * taught_queries).sum(1).mean() - (tools.vectors * taught_tools).sum(1).mean()
    return 2 * order + 4 * distance
