import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Words that the tiny model knows, each with its axis; unknown words have the last axis. */
const AXES: Readonly<Record<string, number>> = {
  read: 0,
  lire: 0,
  file: 1,
  fichier: 1,
  send: 2,
  mail: 3,
  delete: 4,
  weather: 5,
}
export const TINY_DIMS = 8
const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]']
const FLOAT = 1
const INT64 = 7

/**
 * A complete feature-extraction model of about 2 KB, in the layout of the hub: `config.json`, `tokenizer.json`,
 * `tokenizer_config.json` and `onnx/model_quantized.onnx`, whose single node looks up a row per token.
 */
export function writeTinyModel(folder: string): void {
  const words = [...SPECIAL, ...Object.keys(AXES)]
  const vocab = Object.fromEntries(words.map((word, index) => [word, index]))
  const special = SPECIAL.map((content, id) => ({
    id,
    content,
    special: true,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }))
  const json = (name: string, value: unknown): void => writeFileSync(join(folder, name), JSON.stringify(value))
  mkdirSync(join(folder, 'onnx'), { recursive: true })
  json('config.json', {
    model_type: 'bert',
    architectures: ['BertModel'],
    hidden_size: TINY_DIMS,
    vocab_size: words.length,
    max_position_embeddings: 32,
  })
  json('tokenizer_config.json', {
    tokenizer_class: 'BertTokenizer',
    do_lower_case: true,
    model_max_length: 32,
    pad_token: '[PAD]',
    unk_token: '[UNK]',
    cls_token: '[CLS]',
    sep_token: '[SEP]',
  })
  json('tokenizer.json', {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special,
    normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase: true },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [piece('[CLS]'), { Sequence: { id: 'A', type_id: 0 } }, piece('[SEP]')],
      pair: [
        piece('[CLS]'),
        { Sequence: { id: 'A', type_id: 0 } },
        piece('[SEP]'),
        { Sequence: { id: 'B', type_id: 1 } },
      ],
      special_tokens: Object.fromEntries(
        ['[CLS]', '[SEP]'].map((token) => [token, { id: token, ids: [vocab[token]], tokens: [token] }]),
      ),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab,
    },
  })
  const rows = new Float32Array(words.length * TINY_DIMS)
  words.forEach((word, row) => {
    const axis = AXES[word] ?? (word === '[UNK]' ? TINY_DIMS - 1 : undefined)
    // [CLS] and [SEP] stay zero, so only words count in the mean.
    if (axis !== undefined) rows[row * TINY_DIMS + axis] = 1
  })
  writeFileSync(join(folder, 'onnx', 'model_quantized.onnx'), lookUpModel(rows, words.length, TINY_DIMS))
}

const piece = (id: string) => ({ SpecialToken: { id, type_id: 0 } })

/**
 * An ONNX model `last_hidden_state = rows[input_ids]` as protobuf (field numbers of onnx.proto 1.x). It has an unused
 * input `attention_mask`, because real models have one.
 */
function lookUpModel(rows: Float32Array, count: number, dims: number): Uint8Array {
  const tokens = [text(2, 'batch'), text(2, 'sequence')]
  const graph = [
    bytes(1, [text(1, 'rows'), text(1, 'input_ids'), text(2, 'last_hidden_state'), text(4, 'Gather')]),
    text(2, 'lookup'),
    bytes(5, [
      number(1, count),
      number(1, dims),
      number(2, FLOAT),
      text(8, 'rows'),
      raw(9, new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)),
    ]),
    value(11, 'input_ids', INT64, tokens),
    value(11, 'attention_mask', INT64, tokens),
    value(12, 'last_hidden_state', FLOAT, [...tokens, number(1, dims)]),
  ]
  return Buffer.concat([number(1, 7), text(2, 'pegboard'), bytes(7, graph), bytes(8, [text(1, ''), number(2, 13)])])
}

/** A ValueInfoProto: a name, an element type and one dimension message for each axis. */
function value(field: number, name: string, element: number, axes: readonly Uint8Array[]): Uint8Array {
  const shape = bytes(
    2,
    axes.map((axis) => bytes(1, [axis])),
  )
  return bytes(field, [text(1, name), bytes(2, [bytes(1, [number(1, element), shape])])])
}

function varint(value: number): number[] {
  const out: number[] = []
  let rest = value
  while (rest > 127) {
    out.push((rest & 127) | 128)
    rest >>>= 7
  }
  return [...out, rest]
}

const number = (field: number, value: number): Uint8Array => Uint8Array.from([...varint(field << 3), ...varint(value)])
const raw = (field: number, content: Uint8Array): Uint8Array =>
  Buffer.concat([Uint8Array.from([...varint((field << 3) | 2), ...varint(content.length)]), content])
const text = (field: number, content: string): Uint8Array => raw(field, Buffer.from(content))
const bytes = (field: number, parts: readonly Uint8Array[]): Uint8Array => raw(field, Buffer.concat(parts))
