"""Trains the contextual search encoder. README.md describes the data folder and the stages.

python3 training/encoder/train.py --data DIR --out DIR
"""
from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Iterator

import numpy
import torch
from tokenizers import Tokenizer

from batches import ContrastiveBatches, MaskedBatches
from data import DOCUMENTATION, Corpus, read_corpus
from evaluate import Figures, evaluate
from model import Encoder, Shape
from pieces import CorpusPieces
from save import write_weights
from stages import Run, Stage, contrastive_loss, language_model_loss, mine_negatives, refining_loss
from text import plain_text, train_vocabulary

VOCABULARY_PROSE = 120_000


@dataclass(frozen=True)
class Recipe:
    shape: Shape
    language_model: Stage
    contrastive: Stage
    refining: Stage
    # Maximum number of lines to read of each training file.
    lines: int | None = None


SHIPPED = Recipe(
    Shape(),
    Stage('language model', 10_000, 512, 1.5e-3),
    Stage('contrastive', 1_340, 1_024, 6e-4),
    Stage('hard negatives', 340, 512, 2e-4),
)
# The stage "hard negatives" with a teacher.
DISTILLED = Stage('hard negatives', 1_050, 512, 5e-4)
TEACHER = Recipe(
    Shape(layers=8, width=512, heads=8, inner=2_048),
    Stage('language model', 4_080, 512, 7e-4),
    Stage('contrastive', 710, 1_024, 3e-4),
    Stage('hard negatives', 380, 512, 1e-4),
)
SMALL = Recipe(
    Shape(layers=2, width=64, inner=256, pieces=4_096),
    Stage('language model', 100, 32, 1.5e-3),
    Stage('contrastive', 120, 64, 1e-3),
    Stage('hard negatives', 40, 16, 5e-4),
    lines=1_500,
)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Train the contextual search encoder of Pegboard.')
    parser.add_argument('--data', type=Path, required=True, metavar='DIR', help='folder with train/ and dev/')
    parser.add_argument('--out', type=Path, required=True, metavar='DIR', help='folder for checkpoints and weights')
    parser.add_argument('--seed', type=int, default=1, metavar='N', help='seed of everything random (default 1)')
    workers_help = 'processes that prepare batches (default 6 with a GPU, otherwise 0)'
    parser.add_argument('--workers', type=int, metavar='N', help=workers_help)
    parser.add_argument('--teacher', type=Path, metavar='DIR', help='distil from this --out of a run with --large')
    size = parser.add_mutually_exclusive_group()
    size.add_argument('--small', action='store_true', help='train a tiny model on a sample, to check the installation')
    size.add_argument('--large', action='store_true', help='train a teacher: 8 layers, 512 wide')
    options = parser.parse_args()
    for folder in ('train', 'dev'):
        if not (options.data / folder).is_dir():
            parser.error(f'--data: {options.data} has no folder {folder}. README.md describes the data folder.')
    return options


def vocabulary_texts(corpus: Corpus, seed: int) -> Iterator[str]:
    """Tools and requests count twice. Translations count only on the side that is not English."""
    order = numpy.random.default_rng([seed, 6]).permutation(len(corpus.prose))[:VOCABULARY_PROSE]
    yield from (corpus.prose[index] for index in order)
    for tool in corpus.tools:
        if tool.source != DOCUMENTATION:
            yield from [f'{tool.text["name"]} {tool.text["description"]} {tool.text["parameters"]}'] * 2
    for request in corpus.requests:
        yield from [plain_text(request.text)] * 2
    for pair in corpus.pairs:
        yield pair.left
        if pair.source != 'tldr_parallel':
            yield pair.right


def read_teacher(folder: Path, device: torch.device) -> Encoder:
    saved = torch.load(folder / 'model.pt', map_location='cpu')
    teacher = Encoder(Shape(**saved['shape']))
    teacher.load_state_dict(saved['model'])
    return teacher.to(device).eval()


def report(run: Run, title: str, figures: Figures) -> None:
    for name, values in figures.items():
        run.log(f'{title}: {name}: ' + ', '.join(f'{figure} {value}' for figure, value in values.items()))


def main() -> None:
    options = read_arguments()
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision('high')
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    recipe = SMALL if options.small else TEACHER if options.large else SHIPPED
    refining = DISTILLED if options.teacher and not options.small else recipe.refining
    workers = options.workers if options.workers is not None else 6 if device.type == 'cuda' else 0
    options.out.mkdir(parents=True, exist_ok=True)

    corpus = read_corpus(options.data, recipe.lines)
    counts = {name: len(getattr(corpus, name)) for name in ('tools', 'requests', 'pairs', 'prose')}
    print(', '.join(f'{count:,} {name}' for name, count in counts.items()), flush=True)

    # Stage: vocabulary. A student reads the pieces of its teacher.
    if options.teacher or (options.out / 'checkpoint.pt').exists():
        tokenizer = Tokenizer.from_file(str((options.teacher or options.out) / 'vocabulary.json'))
    else:
        tokenizer = train_vocabulary(list(vocabulary_texts(corpus, options.seed)), recipe.shape.pieces)
    tokenizer.save(str(options.out / 'vocabulary.json'))
    # A small sample can have fewer pieces than were asked for.
    shape = Shape(**{**asdict(recipe.shape), 'pieces': tokenizer.get_vocab_size()})
    model = Encoder(shape).to(device)
    settings = {'seed': options.seed, 'shape': asdict(shape), 'teacher': str(options.teacher or ''), **counts}
    run = Run(options.out, model, settings, workers)
    pieces = CorpusPieces(tokenizer, corpus, options.seed)

    # Stage: language model
    stage = recipe.language_model
    if stage.name not in run.state['done']:
        sequences = pieces.language_model_sequences(tokenizer, corpus.prose, options.seed)
        run.log(f'language model: {sequences.size:,} pieces')
        batches = MaskedBatches(sequences, stage.batch, shape.pieces, options.seed)
        run.train(stage, batches, lambda batch: language_model_loss(model, batch))

    # Stage: contrastive
    stage = recipe.contrastive
    if stage.name not in run.state['done']:
        contrastive = ContrastiveBatches(pieces, stage.batch, options.seed, thinned=0.1)
        run.train(stage, contrastive, lambda batch: contrastive_loss(model, batch))
        report(run, stage.name, evaluate(model, tokenizer, corpus))

    # Stage: hard negatives, with the model's own late-interaction head
    teacher = read_teacher(options.teacher, device) if options.teacher else None
    if 'negatives' not in run.state:
        run.state['negatives'] = torch.from_numpy(mine_negatives(teacher or model, pieces))
        run.save()
    negatives = run.state['negatives'].numpy()
    run.log(f'hard negatives: {int((negatives >= 0).any(1).sum()):,} of {len(negatives):,} requests have some')
    refined = ContrastiveBatches(pieces, refining.batch, options.seed, 0.05, refining=1, negatives=negatives)
    run.train(refining, refined, lambda batch: refining_loss(model, batch, teacher))

    figures = evaluate(model, tokenizer, corpus)
    report(run, 'result', figures)
    (options.out / 'figures.json').write_text(json.dumps({'settings': settings, 'figures': figures}, indent=2) + '\n')
    torch.save({'shape': asdict(shape), 'model': model.state_dict()}, options.out / 'model.pt')
    write_weights(model, options.out / 'weights.npz')
    run.log(f'{options.out / "weights.npz"} written. pack.py makes the model file of it.')


if __name__ == '__main__':
    main()
