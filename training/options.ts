import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Everything that can be set on the command line as `--name value`. The defaults made the model that is committed. */
export const DEFAULTS = {
  /** Folder with train/ and dev/. */
  data: '../shared/data',
  out: 'models/tools.bin',
  seed: 1,
  dims: 192,
  /** Stems with a vector of their own, the commonest; and hashed rows for the n-grams of all others. */
  stems: 24_000,
  grams: 8_192,
  leastCount: 3,
  epochs: 3,
  batch: 512,
  rate: 0.07,
  /** Of the weights of stems in queries and documents. */
  weightRate: 0.02,
  /** Cosines are multiplied by this before the softmax. */
  scale: 20,
  /** Share of the examples batched by source and server, so that a tool's siblings are its negatives. */
  clustered: 0.5,
  /** Share of the words left out of every text, anew each time it is drawn. */
  drop: 0.25,
  /** Every so many of the tools that we wrote queries for is kept for learning the fusion. */
  fold: 6,
} as const

export type Options = { -readonly [K in keyof typeof DEFAULTS]: (typeof DEFAULTS)[K] extends number ? number : string }

/** How often an epoch sees each source: 2 is twice, 0.5 every second example. */
export const SOURCE_WEIGHTS: Readonly<Record<string, number>> = {
  labelled: 2,
  metatool: 0.5,
  apibench: 1,
  tools: 2,
  'apibench-tools': 0.5,
  written: 4,
  foreign: 5,
  servers: 3,
  questions: 4,
  lexicon: 3,
  mix: 2,
  phrases: 5,
  botocore: 0.7,
  intents: 0.6,
  tldr: 1,
  tldr_parallel: 1,
  wordnet: 0.6,
}

/** Weights of a document's fields in its vector, and how many words of each are read. */
export const FIELDS = {
  name: [2, 20],
  aliases: [1, 30],
  description: [1, 60],
  parameters: [0.5, 60],
  tags: [0.7, 20],
  effects: [0.3, 8],
  module: [0.7, 8],
  context: [0.5, 30],
  requests: [1, 300],
} as const

/** @throws RangeError that says what can be given */
export function readOptions(args: readonly string[]): Options {
  const options: Record<string, string | number> = { ...DEFAULTS }
  for (let at = 0; at < args.length; at += 2) {
    const name = (args[at] ?? '').replace(/^--/, '')
    const value = args[at + 1]
    const known = options[name]
    if (known === undefined || value === undefined) throw new RangeError(`${args[at]} is no option.\n${usage()}`)
    options[name] = typeof known === 'number' ? Number(value) : value
    if (Number.isNaN(options[name])) throw new RangeError(`--${name} takes a number, not "${value}".`)
  }
  if (Number(options['dims']) % 64 !== 0) throw new RangeError('--dims must be a multiple of 64.')
  const { data, dims, epochs } = options
  if (Number(dims) < 64 || Number(epochs) < 1) throw new RangeError('--dims must be 64 or more, --epochs 1 or more.')
  if (!['pairs', 'mcp-corpus/tools.jsonl'].every((file) => existsSync(join(String(data), 'train', file))))
    throw new RangeError(
      `${data} has no train/pairs and train/mcp-corpus. --data names a folder with train/ (sets and pairs) and dev/ (sets to measure on); models/README.md says which.`,
    )
  return options as Options
}

const usage = (): string =>
  `Options and their defaults: ${Object.entries(DEFAULTS)
    .map(([name, value]) => `--${name} ${value}`)
    .join(' ')}`
