"""Batches of examples. Each is a function of the seed and the step, so a resumed run continues with the same ones."""
from __future__ import annotations

import numpy
from torch.utils.data import Dataset

from data import DOCUMENTATION
from pieces import CorpusPieces, EncoderInput, Random, pad, query_input, tool_input
from text import MASK, SPECIAL_PIECES

# Texts of a request and of a tool, the group of the tool, and the groups of all relevant tools.
Example = tuple[EncoderInput, EncoderInput, int, list[int]]

# How often an epoch uses each example, by source. Other sources count 2 (requests) or 1 (pairs).
REQUEST_WEIGHTS = {'metatool': 0.5, 'apibench': 1.0, 'written': 4.0, 'translated': 4.0, DOCUMENTATION: 1.0}
PAIR_WEIGHTS = {'botocore': 0.7, 'intents': 0.6, 'tldr_parallel': 0.5, 'wordnet': 0.4, 'lexicon': 2.0, 'phrases': 4.0}
# Of tools against their own parts, and of pairs: in the contrastive stage, and with hard negatives.
TOOL_WEIGHTS = ({DOCUMENTATION: 1.0, 'apibench': 0.5}, {'apibench': 0.5})
PAIR_FACTORS = (1.0, 0.25)
RELEVANT_GROUPS = 6
NEGATIVES = 3
SWAPPED_PAIRS = 0.35
MISSPELLED_REQUESTS = 0.1
LATE_REQUESTS, LATE_OTHER_TOOLS = 32, 96
MASKED_SHARE = 0.25


def thin(pieces: numpy.ndarray, share: float, random: Random) -> numpy.ndarray:
    """Without a random share of the pieces, but never empty."""
    if len(pieces) < 3:
        return pieces
    kept = pieces[random.random(len(pieces)) >= share]
    return kept if len(kept) else pieces


class MaskedBatches(Dataset):
    """Sequences with a quarter of the pieces to predict (Devlin et al. 2019)."""

    def __init__(self, sequences: numpy.ndarray, batch: int, vocabulary: int, seed: int) -> None:
        self.sequences, self.batch, self.vocabulary, self.seed = sequences, batch, vocabulary, seed
        self.epoch, self.order = -1, numpy.zeros(0, dtype=numpy.int64)

    def __getitem__(self, step: int) -> dict[str, numpy.ndarray]:
        random = numpy.random.default_rng([self.seed, 2, step])
        epoch, at = divmod(step, max(1, len(self.sequences) // self.batch))
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = numpy.random.default_rng([self.seed, 3, epoch]).permutation(len(self.sequences))
        pieces = self.sequences[self.order[at * self.batch : (at + 1) * self.batch]].astype(numpy.int64)
        count = int(pieces.shape[1] * MASKED_SHARE)
        masked = numpy.argsort(random.random(pieces.shape), axis=1)[:, :count]
        wanted = numpy.take_along_axis(pieces, masked, 1)
        choice = random.random(wanted.shape)
        others = random.integers(len(SPECIAL_PIECES), self.vocabulary, wanted.shape)
        shown = numpy.where(choice < 0.8, MASK, numpy.where(choice < 0.9, others, wanted))
        numpy.put_along_axis(pieces, masked, shown, 1)
        return {'pieces': pieces, 'masked': masked, 'wanted': wanted}


class ContrastiveBatches(Dataset):
    """Requests and the tools that belong to them. Half of the batches consist of clusters of similar examples.

    refining: 0 in the contrastive stage, 1 with hard negatives; negatives: tools for each request, -1 for none.
    """

    def __init__(
        self,
        corpus: CorpusPieces,
        batch: int,
        seed: int,
        thinned: float,
        refining: int = 0,
        negatives: numpy.ndarray | None = None,
    ) -> None:
        self.corpus, self.batch, self.seed = corpus, batch, seed
        self.thinned, self.refining, self.negatives = thinned, refining, negatives
        weights = [
            weights_of(corpus.request_sources, REQUEST_WEIGHTS, 2.0),
            weights_of(corpus.tool_sources, TOOL_WEIGHTS[refining], 2.0 if refining == 0 else 0.4),
            weights_of(corpus.pair_sources, PAIR_WEIGHTS, 1.0) * PAIR_FACTORS[refining],
        ]
        first_tools = numpy.array([tools[0] for tools in corpus.request_tools], dtype=numpy.int64)
        self.clusters = numpy.concatenate(
            (corpus.tool_clusters[first_tools], corpus.tool_clusters, corpus.pair_clusters)
        )
        self.weights = numpy.concatenate(weights)
        self.kinds = numpy.repeat(numpy.arange(3), [len(one) for one in weights])
        self.indices = numpy.concatenate([numpy.arange(len(one)) for one in weights])
        self.epoch, self.epoch_end = -1, 0
        self.rows = numpy.zeros((0, batch), dtype=numpy.int64)

    def next_epoch(self) -> None:
        self.epoch += 1
        random = numpy.random.default_rng([self.seed, 4, self.refining, self.epoch])
        whole = numpy.floor(self.weights)
        copies = (whole + (random.random(len(whole)) < self.weights - whole)).astype(numpy.int64)
        examples = random.permutation(numpy.repeat(numpy.arange(len(whole)), copies))
        mixed, clustered = numpy.array_split(examples, 2)
        order = random.random(int(self.clusters.max()) + 1)[self.clusters[clustered]]
        clustered = clustered[numpy.argsort(order, kind='stable')]
        size = max(1, self.batch // 8)
        chunks = clustered[: len(clustered) // size * size].reshape(-1, size)
        clustered = random.permutation(chunks).reshape(-1)
        halves = [half[: len(half) // self.batch * self.batch] for half in (mixed, clustered)]
        self.rows = random.permutation(numpy.concatenate(halves).reshape(-1, self.batch))
        if len(self.rows) == 0:
            raise ValueError(f'{len(examples)} examples are too few for two batches of {self.batch}. Add data.')
        self.epoch_end += len(self.rows)

    def __getitem__(self, step: int) -> dict[str, numpy.ndarray]:
        while step >= self.epoch_end:
            self.next_epoch()
        random = numpy.random.default_rng([self.seed, 5, self.refining, step])
        draw = (self.draw_request, self.draw_tool, self.draw_pair)
        queries, tools, groups = [], [], []
        relevant = numpy.full((self.batch, RELEVANT_GROUPS), -1, dtype=numpy.int64)
        examples = self.rows[step - self.epoch_end + len(self.rows)]
        for row, example in enumerate(examples):
            query, tool, group, others = draw[self.kinds[example]](self.indices[example], random)
            queries.append(query)
            tools.append(tool)
            groups.append(group)
            relevant[row, : len(others)] = others
        if self.negatives is not None:
            for request in self.indices[examples[self.kinds[examples] == 0]]:
                found = self.negatives[request][self.negatives[request] >= 0]
                for tool in random.choice(found, NEGATIVES) if len(found) else []:
                    tools.append(self.draw_document(tool, random))
                    groups.append(self.corpus.tool_groups[tool])
        batch = {'groups': numpy.array(groups, dtype=numpy.int64), 'relevant': relevant}
        batch['query_pieces'], batch['query_parts'] = pad(queries)
        batch['tool_pieces'], batch['tool_parts'] = pad(tools)
        batch['late_rows'], batch['late_columns'] = self.late_choice(len(tools), random)
        return batch

    def late_choice(self, tools: int, random: Random) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Late interaction costs memory: half of the requests take part, in chunks, each with some other tools."""
        size = min(LATE_REQUESTS, self.batch)
        chunks = numpy.arange(self.batch // size * size).reshape(-1, size)
        rows = random.permutation(chunks)[: max(1, len(chunks) // 2)]
        others = random.integers(self.batch if tools > self.batch else 0, tools, (len(rows), LATE_OTHER_TOOLS))
        return rows, numpy.concatenate((rows, others), 1)

    def draw_document(self, tool: int, random: Random) -> EncoderInput:
        """A tool with missing parts and pieces, as real tools have them."""
        pieces = self.corpus.tools[tool]
        description = thin(pieces['description'], self.thinned, random)
        if random.random() < 0.1:
            description = description[: len(self.corpus.tools.first_sentence[tool])]
        pieces['parameters'] = thin(pieces['parameters'], self.thinned, random)
        missing = random.random()
        if missing < 0.15:
            del pieces['parameters']
        elif missing < 0.25:
            del pieces['server']
        elif missing > 0.94 and len(description) > 4:
            del pieces['name']
        return tool_input({**pieces, 'description': description})

    def draw_request(self, request: int, random: Random) -> Example:
        corpus = self.corpus
        relevant = corpus.request_tools[request]
        tool = relevant[random.integers(len(relevant))]
        texts = corpus.misspelled if random.random() < MISSPELLED_REQUESTS else corpus.requests
        query = query_input(thin(texts[request], self.thinned, random))
        groups = [int(corpus.tool_groups[one]) for one in relevant[:RELEVANT_GROUPS]]
        return query, self.draw_document(tool, random), int(corpus.tool_groups[tool]), groups

    def draw_tool(self, tool: int, random: Random) -> Example:
        """A part of a tool against its other parts."""
        pieces = self.corpus.tools[tool]
        name, server, description = pieces['name'], pieces['server'], pieces['description']
        first = self.corpus.tools.first_sentence[tool]
        choice = random.random()
        if choice < 0.35 and self.corpus.tool_sources[tool] == DOCUMENTATION:
            # Names of operations are no requests.
            choice = 0.5
        if len(description) < 3 or choice >= 0.9:
            query = thin(description if len(description) else name, 0.6, random)
        elif choice < 0.3:
            query = pieces.pop('name')
        elif choice < 0.75:
            query = thin(first, max(self.thinned, 0.2), random)
            pieces['description'] = description[len(first) :]
        else:
            query = numpy.concatenate((thin(server, 0.2, random), thin(name, 0.3, random)))
            pieces = {'description': description, 'parameters': pieces['parameters']}
        group = int(self.corpus.tool_groups[tool])
        return query_input(query), tool_input(pieces), group, [group]

    def draw_pair(self, pair: int, random: Random) -> Example:
        query, document = self.corpus.left[pair], self.corpus.right[pair]
        if random.random() < SWAPPED_PAIRS:
            query, document = document, query
        document = thin(document, self.thinned, random)
        group = int(self.corpus.pair_groups[pair])
        query = thin(query, self.thinned, random)
        return query_input(query), tool_input({'description': document}), group, [group]


def weights_of(sources: numpy.ndarray, weights: dict[str, float], other: float) -> numpy.ndarray:
    return numpy.array([weights.get(source, other) for source in sources], dtype=numpy.float64)
