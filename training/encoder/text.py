"""Text of requests and tools, and the numbers of word pieces that the encoder reads.

Pegboard does the same in TypeScript while it searches: `src/search/encoder/encoder-text.ts` and
`word-piece-tokenizer.ts`. Both must give the same numbers, so change them together.
"""
from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_PIECES = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', '[Q]', '[D]', '[X]']
PADDING, SEPARATOR, MASK, QUERY, TOOL = 0, 3, 4, 5, 6

VOCABULARY_SIZE = 16_384
# Chinese, Japanese and Korean need thousands of characters.
ALPHABET_SIZE = 2_600
MAX_PIECES = 160
QUERY_PIECES = 110
# For each part of a tool: its number, and the maximum number of pieces.
PARTS = {'name': (1, 24), 'server': (2, 10), 'description': (3, 96), 'parameters': (4, 44)}
PART_COUNT = 6

DESCRIPTION_CHARACTERS = 1_200
PARAMETERS_CHARACTERS = 600
PARAMETER_CHARACTERS = 70
PARAMETERS_CAP = 25
SCHEMA_DEPTH = 2

# JavaScript's \s. Python's also matches U+001C to U+001F and U+0085, and not U+FEFF.
SPACE = '\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff'
ADDRESS = re.compile(f'https?://[^{SPACE}]+')
TAG = re.compile(r'<[^>]{1,200}>')
MARKS = re.compile(r'[_`*#]')
SPACES = re.compile(f'[{SPACE}]+')
NOT_LETTERS_OR_DIGITS = re.compile(r'[\W_]+')
SENTENCE_END = re.compile(r'[.!?。](?:\s|$)|\n')


def cut(text: str, cap: int) -> str:
    """The first `cap` UTF-16 units, as `slice` of JavaScript counts."""
    if text.isascii():
        return text[:cap]
    return text[:cap].encode('utf-16-le', 'surrogatepass')[: 2 * cap].decode('utf-16-le', 'ignore')


def split_compounds(text: str) -> str:
    """`listOpenIssues` becomes `list Open Issues`."""
    return re.sub('([A-Z])(?=[A-Z][a-z])', r'\1 ', re.sub('([a-z0-9])(?=[A-Z])', r'\1 ', text))


def plain_text(text: str, cap: int = DESCRIPTION_CHARACTERS) -> str:
    """Text without addresses, tags and marks; compound words are split."""
    text = split_compounds(TAG.sub(' ', ADDRESS.sub(' url ', cut(text, cap))))
    return SPACES.sub(' ', MARKS.sub(' ', text)).strip(' ')


def name_text(name: str) -> str:
    """The words of a name."""
    return NOT_LETTERS_OR_DIGITS.sub(' ', split_compounds(name)).strip(' ')


def first_sentence(text: str) -> str:
    end = SENTENCE_END.search(text)
    return plain_text(text[: end.start()] if end and end.start() > 0 else text)


def parameters_text(schema: object) -> str:
    """Names and descriptions of the parameters in a JSON schema."""
    found: list[str] = []
    collect_parameters(schema, 0, found)
    return cut('; '.join(found), PARAMETERS_CHARACTERS)


def collect_parameters(schema: object, depth: int, found: list[str]) -> None:
    if depth > SCHEMA_DEPTH or len(found) >= PARAMETERS_CAP or not isinstance(schema, dict):
        return
    properties = schema.get('properties')
    if isinstance(properties, dict):
        for name, described in properties.items():
            text = described.get('description') if isinstance(described, dict) else None
            text = plain_text(text, PARAMETER_CHARACTERS) if isinstance(text, str) else ''
            found.append(f'{name_text(name)}: {text}' if text else name_text(name))
            collect_parameters(described, depth + 1, found)
    collect_parameters(schema.get('items'), depth + 1, found)


def bare_name(name: str, server: str) -> str:
    """The name without the server's: see `bareNameOf` in src/search/search-document.ts."""
    for prefix in (server + separator for separator in ('.', '__', '::', ':', '/')):
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def tool_text(name: str, server: str, description: str, schema: object) -> dict[str, str]:
    return {
        'name': cut(name_text(bare_name(name, server)), 100),
        'server': cut(name_text(server), 60),
        'description': plain_text(description),
        'parameters': parameters_text(schema),
    }


def create_tokenizer(pieces: list[str]) -> Tokenizer:
    """Lower case without accents, split at spaces, punctuation and around digits; then the longest pieces first."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token='[UNK]', max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=False)]
    )
    return tokenizer


def train_vocabulary(texts: list[str], size: int) -> Tokenizer:
    """Learns the pieces. The same texts give the same pieces.

    The trainer of the library numbers characters in random order and breaks ties by these numbers. So it gets all
    characters, and those inside words as "##x", in a fixed order.
    """
    from tokenizers import trainers

    tokenizer = create_tokenizer([])
    characters: Counter[str] = Counter()
    inside: set[str] = set()
    for text in texts:
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text)):
            characters.update(word)
            inside.update(word[1:])
    alphabet = sorted(characters, key=lambda character: (-characters[character], character))[:ALPHABET_SIZE]
    inside_pieces = sorted(f'##{character}' for character in inside.intersection(alphabet))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=4,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        special_tokens=SPECIAL_PIECES + inside_pieces,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # A new tokenizer: in this one "##x" would be a special token in texts.
    return create_tokenizer(SPECIAL_PIECES + sorted(set(tokenizer.get_vocab()) - set(SPECIAL_PIECES)))
