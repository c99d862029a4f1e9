"""Packs trained weights and the vocabulary into the model file that Pegboard ships.

    python3 training/encoder/pack.py WEIGHTS.npz VOCABULARY.json models/encoder.bin

WEIGHTS.npz: int8 matrices with one scale a row ("NAME" and "NAME/scale"), float32 vectors. VOCABULARY.json: as the
tokenizers library saves it. The parts that only training needs (the language model head) are left out.
The file: magic "PGEN", version, bytes of the settings, total bytes; the settings as JSON; then the vocabulary and the
arrays, each at a multiple of 16 bytes.
"""
import hashlib
import json
import sys

import numpy

ALIGNMENT = 16


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def pack(weights_file, vocabulary_file, target):
    weights = numpy.load(weights_file)
    numbers = json.load(open(vocabulary_file, encoding='utf8'))['model']['vocab']
    pieces = sorted(numbers, key=numbers.get)
    parts = [('pieces', 'text', '\n'.join(pieces).encode())]
    for name in weights.files:
        if name.startswith('lm'):
            continue
        array = weights[name]
        kind = {'int8': 'int8', 'float32': 'float32'}[str(array.dtype)]
        parts.append((name, kind, array.astype('<i1' if kind == 'int8' else '<f4').tobytes()))
    width = weights['nf.weight'].shape[0]
    settings = {
        'id': hashlib.sha256(b''.join(part[2] for part in parts)).hexdigest()[:16],
        'pieces': len(pieces),
        'width': width,
        'layers': len([name for name in weights.files if name.endswith('.qkv.weight')]),
        'heads': 4,
        'inner': weights['blocks.0.f1.weight'].shape[0],
        'positions': weights['pos.weight'].shape[0],
        'dims': weights['out.weight'].shape[0],
        'tokenDims': weights['tok.weight'].shape[0],
        # `npm run train:fusion` replaces this by what it learns.
        'fusion': {'rank': {'lexicalShare': 2, 'cosine': 2, 'covered': 4, 'nameCovered': 1, 'encoded': 8}, 'relevance': {'bias': 0}},
        'arrays': [[name, kind, len(data)] for name, kind, data in parts],
    }
    header = json.dumps(settings).encode()
    chunks = [header] + [data for _, _, data in parts]
    total = 16 + sum(aligned(len(chunk)) for chunk in chunks)
    with open(target, 'wb') as file:
        file.write(numpy.array([0x4E454750, 1, len(header), total], dtype='<u4').tobytes())
        for chunk in chunks:
            file.write(chunk + bytes(aligned(len(chunk)) - len(chunk)))
    print(f'{target}: {total} bytes, id {settings["id"]}')


if __name__ == '__main__':
    pack(*sys.argv[1:])
