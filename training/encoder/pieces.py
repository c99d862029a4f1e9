"""Texts as word pieces, in the form that the encoder reads."""
from __future__ import annotations

import numpy
from tokenizers import Tokenizer

from data import DOCUMENTATION, Corpus, Tool
from text import MAX_PIECES, PADDING, PARTS, QUERY, QUERY_PIECES, SEPARATOR, TOOL, plain_text

Random = numpy.random.Generator
# Numbers of pieces, and for each the number of its part.
EncoderInput = tuple[numpy.ndarray, numpy.ndarray]

FIRST_SENTENCE_PIECES, PAIR_PIECES, PROSE_PIECES = 64, 64, 256
SEQUENCE_PIECES = 128
NOTHING = numpy.zeros(0, dtype=numpy.uint16)


class PieceLists:
    """Tokenized texts in one array, so that worker processes share its memory."""

    def __init__(self, tokenizer: Tokenizer, texts: list[str], cap: int) -> None:
        lists: list[numpy.ndarray] = []
        for start in range(0, len(texts), 20_000):
            encodings = tokenizer.encode_batch(texts[start : start + 20_000], add_special_tokens=False)
            lists += [numpy.array(encoding.ids[:cap], dtype=numpy.uint16) for encoding in encodings]
        self.ends = numpy.cumsum([0] + [len(one) for one in lists])
        self.pieces = numpy.concatenate([NOTHING, *lists])

    def __getitem__(self, index: int) -> numpy.ndarray:
        return self.pieces[self.ends[index] : self.ends[index + 1]]

    def __len__(self) -> int:
        return len(self.ends) - 1


class ToolPieces:
    def __init__(self, tokenizer: Tokenizer, tools: list[Tool]) -> None:
        self.parts = {
            part: PieceLists(tokenizer, [tool.text[part] for tool in tools], cap) for part, (_, cap) in PARTS.items()
        }
        self.first_sentence = PieceLists(tokenizer, [tool.first_sentence for tool in tools], FIRST_SENTENCE_PIECES)

    def __len__(self) -> int:
        return len(self.first_sentence)

    def __getitem__(self, index: int) -> dict[str, numpy.ndarray]:
        return {part: lists[index] for part, lists in self.parts.items()}


class CorpusPieces:
    """The corpus as word pieces, groups and clusters."""

    def __init__(self, tokenizer: Tokenizer, corpus: Corpus, seed: int) -> None:
        random = numpy.random.default_rng([seed, 0])
        self.tools = ToolPieces(tokenizer, corpus.tools)
        requests = [plain_text(request.text) for request in corpus.requests]
        self.requests = PieceLists(tokenizer, requests, QUERY_PIECES)
        self.misspelled = PieceLists(tokenizer, [misspell(text, random) for text in requests], QUERY_PIECES)
        self.request_tools = [request.tools for request in corpus.requests]
        self.left = PieceLists(tokenizer, [pair.left for pair in corpus.pairs], PAIR_PIECES)
        self.right = PieceLists(tokenizer, [pair.right for pair in corpus.pairs], PAIR_PIECES)
        self.tool_sources = numpy.array([tool.source for tool in corpus.tools])
        self.request_sources = numpy.array([request.source for request in corpus.requests])
        self.pair_sources = numpy.array([pair.source for pair in corpus.pairs])
        groups = number_strings([tool.key for tool in corpus.tools] + [f'pair:{pair.group}' for pair in corpus.pairs])
        self.tool_groups, self.pair_groups = groups[: len(self.tools)], groups[len(self.tools) :]
        # Examples of one server or page resemble each other.
        clusters = [f'{tool.source}:{tool.server}' for tool in corpus.tools]
        clusters += [f'pair:{pair.cluster}' for pair in corpus.pairs]
        numbers = number_strings(clusters)
        self.tool_clusters, self.pair_clusters = numbers[: len(self.tools)], numbers[len(self.tools) :]

    def language_model_sequences(self, tokenizer: Tokenizer, prose: list[str], seed: int) -> numpy.ndarray:
        """All texts in random order, cut into rows of one length."""
        is_labelled = self.tool_sources != DOCUMENTATION
        texts = PieceLists(tokenizer, prose, PROSE_PIECES)
        lists = [texts[index] for index in range(len(texts))]
        lists += [numpy.concatenate(list(self.tools[index].values())) for index in numpy.flatnonzero(is_labelled)]
        lists += [self.requests[index] for index in range(len(self.requests))]
        lists += [numpy.concatenate((self.left[index], self.right[index])) for index in range(len(self.left))]
        order = numpy.random.default_rng([seed, 1]).permutation(len(lists))
        separator = numpy.array([SEPARATOR], dtype=numpy.uint16)
        flat = numpy.concatenate([one for index in order for one in (lists[index], separator)])
        rows = len(flat) // SEQUENCE_PIECES
        return flat[: rows * SEQUENCE_PIECES].reshape(rows, SEQUENCE_PIECES)


def number_strings(strings: list[str]) -> numpy.ndarray:
    numbers: dict[str, int] = {}
    return numpy.array([numbers.setdefault(one, len(numbers)) for one in strings], dtype=numpy.int64)


def misspell(text: str, random: Random) -> str:
    """One typing error in one longer word: two letters swapped, or one left out, doubled or replaced."""
    words = text.split(' ')
    longer = [at for at, word in enumerate(words) if len(word) >= 4 and word.isascii() and word.isalpha()]
    if not longer:
        return text
    chosen = longer[random.integers(len(longer))]
    word = words[chosen]
    at = int(random.integers(1, len(word) - 1))
    replacement = 'etaoinshrdlu'[random.integers(12)]
    middle = (word[at + 1] + word[at], word[at + 1], word[at] * 2 + word[at + 1], replacement + word[at + 1])
    words[chosen] = word[:at] + middle[random.integers(4)] + word[at + 2 :]
    return ' '.join(words)


def query_input(pieces: numpy.ndarray) -> EncoderInput:
    found = numpy.concatenate(([QUERY], pieces[:QUERY_PIECES])).astype(numpy.int64)
    return found, numpy.zeros_like(found)


def tool_input(pieces: dict[str, numpy.ndarray]) -> EncoderInput:
    """The pieces of a tool; parts that are absent or empty are left out."""
    found, parts = [numpy.array([TOOL])], [numpy.array([0])]
    for part, (number, cap) in PARTS.items():
        some = pieces.get(part, NOTHING)[:cap]
        if len(some):
            found += [some.astype(numpy.int64), numpy.array([SEPARATOR])]
            parts.append(numpy.full(len(some) + 1, number))
    return numpy.concatenate(found)[:MAX_PIECES], numpy.concatenate(parts)[:MAX_PIECES]


def pad(inputs: list[EncoderInput]) -> EncoderInput:
    """One row a text; a multiple of 8 pieces wide, which GPUs need for speed."""
    width = min(MAX_PIECES, -(-max(len(pieces) for pieces, _ in inputs) // 8) * 8)
    pieces = numpy.full((len(inputs), width), PADDING, dtype=numpy.int64)
    parts = numpy.zeros((len(inputs), width), dtype=numpy.int64)
    for row, (some, numbers) in enumerate(inputs):
        pieces[row, : len(some)] = some
        parts[row, : len(numbers)] = numbers
    return pieces, parts
