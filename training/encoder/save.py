"""Writes the weights as `pack.py` reads them."""
from __future__ import annotations

from pathlib import Path

import numpy

from model import Encoder

# Names in the model file, which src/search/encoder/encoder.ts reads.
FILE_NAMES = {
    'embedding': 'emb',
    'position': 'pos',
    'part': 'seg',
    'input_norm': 'ne',
    'attention_norm': 'n1',
    'query_key_value': 'qkv',
    'output': 'o',
    'feed_forward_norm': 'n2',
    'expand': 'f1',
    'contract': 'f2',
    'output_norm': 'nf',
    'to_vector': 'out',
    'to_tokens': 'tok',
}


def write_weights(model: Encoder, file: Path) -> None:
    """Matrices as int8 with one scale a row, vectors and the parts as float32. The language model is left out."""
    arrays: dict[str, numpy.ndarray] = {}
    for name, tensor in model.state_dict().items():
        if name.startswith('language_model'):
            continue
        saved = '.'.join(FILE_NAMES.get(part, part) for part in name.split('.'))
        values = tensor.detach().cpu().float().numpy()
        if values.ndim == 1 or name == 'part.weight':
            arrays[saved] = values
            continue
        scales = numpy.maximum(numpy.abs(values).max(1), 1e-12) / 127
        arrays[saved] = numpy.rint(values / scales[:, None]).astype(numpy.int8)
        arrays[f'{saved}/scale'] = scales.astype(numpy.float32)
    numpy.savez(file, **arrays)
