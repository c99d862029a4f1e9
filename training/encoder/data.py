"""Reads the data folder and the project's own requests. README.md lists the files.

Nothing that the result is measured on is learned: tools and requests close to a development set are left out, and so
is every sixth tool of queries.tsv.
"""
from __future__ import annotations

import gzip
import json
import lzma
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Iterator

from text import first_sentence, name_text, plain_text, tool_text

PROJECT_FILES = Path(__file__).resolve().parents[1]
# ToolBench: its source states no licence for a part of it, and the data does not tell which part.
EXCLUDED_SETS = {'toolbench', 'pairs'}
MCP_SET = 'mcp-corpus'
# Their texts are too far from tools to repeat a development set.
UNFILTERED_PAIRS = {'wordnet', 'tldr_parallel'}
DOCUMENTATION = 'documentation'
KEPT_FRACTION = 6
SHINGLE_WORDS = 8
TOOL_OVERLAP = 0.3
QUERY_OVERLAP = 0.5
WORDS = re.compile(r'\w+')


@dataclass
class Tool:
    id: str
    source: str
    server: str
    text: dict[str, str]
    first_sentence: str

    @property
    def key(self) -> str:
        """Equal for copies of a tool. Servers of the MCP corpus copy each other's tools with changed descriptions."""
        text = self.text
        return f'{self.source}:{text["name"]}|{"" if self.source == MCP_SET else text["description"]}'.lower()


@dataclass
class Request:
    text: str
    tools: list[int]
    source: str


@dataclass
class Pair:
    """Two texts that belong together. Pairs of one group are never negatives of each other."""

    left: str
    right: str
    group: str
    cluster: str
    source: str


@dataclass
class EvaluationSet:
    name: str
    tools: list[Tool]
    requests: list[str]
    relevant: list[set[str]]


@dataclass
class Corpus:
    tools: list[Tool] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    evaluation: list[EvaluationSet] = field(default_factory=list)


class NearDuplicateFilter:
    """Recognises texts that repeat tools or requests of the development sets."""

    def __init__(self, sets: Iterable[EvaluationSet]) -> None:
        self.shingles: set[int] = set()
        self.texts: set[str] = set()
        self.tools: set[tuple[str, str]] = set()
        for one in sets:
            for tool in one.tools:
                self.tools.add(self.identity(tool))
                self.shingles.update(shingles(tool.text['description']))
            for request in one.requests:
                self.texts.add(' '.join(words(request)))
                self.shingles.update(shingles(request))

    def repeats(self, text: str, overlap: float) -> bool:
        found = shingles(text)
        if found and sum(one in self.shingles for one in found) >= max(1, overlap * len(found)):
            return True
        return ' '.join(words(text)) in self.texts

    def repeats_tool(self, tool: Tool) -> bool:
        return self.identity(tool) in self.tools or self.repeats(tool.text['description'], TOOL_OVERLAP)

    @staticmethod
    def identity(tool: Tool) -> tuple[str, str]:
        return tool.text['name'].lower(), tool.text['description'].lower()


def words(text: str) -> list[str]:
    return WORDS.findall(text.lower())


def shingles(text: str) -> list[int]:
    found = words(text)
    return [hash(tuple(found[at : at + SHINGLE_WORDS])) for at in range(len(found) - SHINGLE_WORDS + 1)]


def read_lines(file: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Lines of a JSON Lines file, plain or compressed; nothing if the file does not exist."""
    if not file.exists():
        return
    opened = {'.gz': gzip.open, '.xz': lzma.open}.get(file.suffix, open)(file, 'rt', encoding='utf8')
    with opened as lines:
        yield from (json.loads(line) for line in islice(lines, limit) if line.strip())


def read_rows(name: str) -> list[list[str]]:
    """Rows of one of the project's tab-separated files."""
    lines = (PROJECT_FILES / name).read_text(encoding='utf8').split('\n')
    return [line.split('\t') for line in lines if line.strip() and not line.startswith('#')]


def tool_of(line: dict[str, Any], source: str) -> Tool:
    server, description = line.get('server') or '', line.get('description') or ''
    text = tool_text(line['name'], server, description, line.get('inputSchema'))
    return Tool(line['id'], source, server, text, first_sentence(description))


def read_evaluation_set(folder: Path) -> EvaluationSet:
    tools = [tool_of(line, folder.name) for line in read_lines(folder / 'tools.jsonl')]
    asked = [line for line in read_lines(folder / 'queries.jsonl') if line.get('relevant')]
    requests = [line['query'] for line in asked]
    return EvaluationSet(folder.name, tools, requests, [set(line['relevant']) for line in asked])


def read_corpus(data: Path, limit: int | None = None) -> Corpus:
    """Reads everything; with `limit`, only the first lines of each training file."""
    sets = [read_evaluation_set(folder) for folder in sorted((data / 'dev').iterdir())]
    duplicates = NearDuplicateFilter(sets)
    corpus = Corpus(evaluation=[one for one in sets if one.requests])
    drop_file = data / 'drop.json'
    drop = json.loads(drop_file.read_text(encoding='utf8')) if drop_file.exists() else {'tools': [], 'queries': []}
    dropped_tools, dropped_queries = set(drop['tools']), set(drop['queries'])

    mcp_tools: dict[str, int] = {}
    for folder in sorted((data / 'train').iterdir()):
        if folder.name in EXCLUDED_SETS:
            continue
        numbers: dict[str, int] = {}
        for line in read_lines(folder / 'tools.jsonl', limit):
            tool = tool_of(line, folder.name)
            if f'{folder.name}|{tool.id}' not in dropped_tools and not duplicates.repeats_tool(tool):
                numbers[tool.id] = len(corpus.tools)
                corpus.tools.append(tool)
        for line in read_lines(folder / 'queries.jsonl', limit):
            tools = [numbers[tool] for tool in line['relevant'] if tool in numbers]
            dropped = f'{folder.name}|{line["id"]}' in dropped_queries
            if tools and not dropped and not duplicates.repeats(line['query'], QUERY_OVERLAP):
                corpus.requests.append(Request(line['query'], tools, folder.name))
        if folder.name == MCP_SET:
            mcp_tools = numbers
    add_written_requests(corpus, mcp_tools)
    add_servers(corpus)
    add_dictionaries(corpus)
    for file in sorted((data / 'train' / 'pairs').glob('*.jsonl.gz')):
        add_pairs(corpus, file, duplicates, limit)
    for line in read_lines(data / 'documentation.jsonl.xz', limit):
        add_documentation(corpus, line, duplicates)
    return corpus


def add_written_requests(corpus: Corpus, mcp_tools: dict[str, int]) -> None:
    """queries.tsv: tool, two English requests, language, request in it. Every sixth tool is for evaluation."""
    english, other = (EvaluationSet(name, [], [], []) for name in ('written-requests', 'translated-requests'))
    rows = [row for row in read_rows('queries.tsv') if row[0] in mcp_tools]
    for number, row in enumerate(rows):
        tool = mcp_tools[row[0]]
        asked = [(text, 'written') for text in row[1:3]] + [(text, 'translated') for text in row[4:5]]
        for text, source in asked:
            if not text:
                continue
            if number % KEPT_FRACTION != 0:
                corpus.requests.append(Request(text, [tool], source))
                continue
            kept = english if source == 'written' else other
            kept.requests.append(text)
            kept.relevant.append({row[0]})
    kept_tools = [corpus.tools[mcp_tools[row[0]]] for row in rows[::KEPT_FRACTION]]
    for kept in (english, other):
        kept.tools = kept_tools
        if kept.requests:
            corpus.evaluation.append(kept)


def add_servers(corpus: Corpus) -> None:
    """servers.tsv: a server, its description, and requests for it."""
    for name, description, *requests in read_rows('servers.tsv'):
        number = len(corpus.tools)
        corpus.tools.append(tool_of({'id': name, 'name': name, 'description': description}, 'servers'))
        corpus.requests += [Request(text, [number], 'servers') for text in requests if text]


def add_dictionaries(corpus: Corpus) -> None:
    """lexicon.tsv and phrases.tsv: English in the first column, twelve other languages in the others."""
    for name in ('lexicon', 'phrases'):
        for number, (english, *others) in enumerate(read_rows(f'{name}.tsv')[1:]):
            for form in (form.strip() for cell in others for form in cell.split('|')):
                if form:
                    corpus.pairs.append(Pair(form, english.split('|')[0].strip(), f'{name}{number}', '', name))


def add_pairs(corpus: Corpus, file: Path, duplicates: NearDuplicateFilter, limit: int | None) -> None:
    source = file.name.replace('.jsonl.gz', '')
    for line in read_lines(file, limit):
        group: str = line['g']
        page = re.sub(r'\d+$', '', group)
        # The project keeps a tenth of the tldr pages for measuring other languages: see training/corpus.ts.
        if source.startswith('tldr') and fnv1a(page) % 10 == 0:
            continue
        cluster = page if source.startswith('tldr') else re.sub('[A-Z].*', '', group) if source == 'botocore' else ''
        left, right = plain_text(line['a'], 500), plain_text(line['b'], 500)
        repeats = source not in UNFILTERED_PAIRS and any(
            duplicates.repeats(text, TOOL_OVERLAP) for text in (left, right)
        )
        if left and right and not repeats:
            corpus.pairs.append(Pair(left, right, f'{source}:{group}', f'{source}:{cluster}', source))


def add_documentation(corpus: Corpus, line: dict[str, Any], duplicates: NearDuplicateFilter) -> None:
    """A record of API or command documentation; one without a name is prose."""
    summary, description = line.get('sum') or '', line.get('d') or ''
    server, parameters, examples = line.get('t') or line.get('s') or '', line.get('p') or '', line.get('ex') or []
    if duplicates.repeats(f'{summary} {description}', TOOL_OVERLAP):
        return
    if line['src'] == 'prose' or not line.get('n'):
        corpus.prose.append(plain_text(f'{summary}. {description}' if summary else description))
        return
    parts = [name_text(server), name_text(line['n'])]
    parts += [plain_text(part) for part in (summary, description, parameters, '. '.join(examples))]
    corpus.prose.append('. '.join(part for part in parts if part))
    if summary and not description.startswith(summary[:40]):
        description = f'{summary}. {description}'
    description = description or summary
    tool = tool_of({'id': '', 'server': server, 'name': line['n'], 'description': description}, DOCUMENTATION)
    tool.text['parameters'] = plain_text(parameters, 500)
    if duplicates.repeats_tool(tool):
        return
    number = len(corpus.tools)
    corpus.tools.append(tool)
    corpus.requests += [
        Request(text, [number], DOCUMENTATION) for text in examples if not duplicates.repeats(text, QUERY_OVERLAP)
    ]


def fnv1a(text: str) -> int:
    """The hash of src/search/evaluate.ts, over UTF-16 units."""
    value = 2_166_136_261
    units = text.encode('utf-16-le')
    for at in range(0, len(units), 2):
        value = ((value ^ int.from_bytes(units[at : at + 2], 'little')) * 16_777_619) & 0xFFFFFFFF
    return value
