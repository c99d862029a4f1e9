import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Encoder, openEncoder } from '../../src/search/encoder/encoder.ts'
import { queryInput } from '../../src/search/encoder/encoder-text.ts'
import { createWordPieceTokenizer } from '../../src/search/encoder/word-piece-tokenizer.ts'

const python = process.env['PYTHON'] ?? 'python3'
const missing = spawnSync(python, ['-c', 'import torch, numpy, tokenizers']).status !== 0
const FOLDER = join('training', 'encoder')

/** Encodes one request with the float32 weights. */
const ENCODE = `
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from model import Encoder, Shape
saved = torch.load(sys.argv[2])
model = Encoder(Shape(**saved['shape']))
model.load_state_dict(saved['model'])
print(json.dumps(model(torch.tensor([json.load(sys.stdin)]), torch.tensor([[0]]), 0).vectors[0].tolist()))
`

interface Definition {
  readonly name: string
  readonly description?: string
  readonly inputSchema?: unknown
}

describe.skipIf(missing)(`the training of the encoder (needs ${python} with torch, numpy and tokenizers)`, () => {
  const data = mkdtempSync(join(tmpdir(), 'pegboard-training-'))
  const out = join(data, 'out')
  let log = ''
  let model: Encoder

  beforeAll(() => {
    writeData()
    log = run(join(FOLDER, 'train.py'), '--data', data, '--out', out, '--small')
    run(join(FOLDER, 'pack.py'), join(out, 'weights.npz'), join(out, 'vocabulary.json'), join(out, 'encoder.bin'))
    model = openEncoder(readFileSync(join(out, 'encoder.bin')))
  }, 900_000)

  afterAll(() => rmSync(data, { recursive: true, force: true }))

  it('runs all stages and measures the development sets', () => {
    for (const stage of ['language model, step 100', 'contrastive, step 120', 'hard negatives, step 40'])
      expect(log).toContain(stage)
    const { figures } = JSON.parse(readFileSync(join(out, 'figures.json'), 'utf8'))
    expect(figures.sample['nDCG@10']).toBeGreaterThan(0)
  })

  it('makes a model file with the settings of the trained model', () => {
    const file = readFileSync(join(out, 'encoder.bin'))
    const settings = JSON.parse(file.subarray(16, 16 + file.readUInt32LE(8)).toString())
    expect(settings).toMatchObject({ width: 64, layers: 2, heads: 4, inner: 256, positions: 160, dims: 256 })
    expect(settings).toMatchObject({ tokenDims: 48, pieces: model.pieces.length })
    expect(model.pieces.slice(0, 8)).toEqual(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', '[Q]', '[D]', '[X]'])
  })

  it('makes a model that gives the same vectors in Pegboard and in PyTorch', () => {
    const input = queryInput('list the open issues of a repository', createWordPieceTokenizer(model.pieces))
    const { stdout } = spawnSync(python, ['-c', ENCODE, FOLDER, join(out, 'model.pt')], {
      input: JSON.stringify(input.pieces),
      encoding: 'utf8',
    })
    const expected = JSON.parse(stdout) as number[]
    const vector = model.encode(input, 'query')
    expect(vector.reduce((sum, value, at) => sum + value * expected[at]!, 0)).toBeGreaterThan(0.999)
  })

  it('resumes after the last finished stage, with the same weights', { timeout: 300_000 }, () => {
    const weights = readFileSync(join(out, 'weights.npz'))
    const resumed = run(join(FOLDER, 'train.py'), '--data', data, '--out', out, '--small')
    expect(resumed).toContain('resumes: finished stages language model, contrastive, hard negatives')
    expect(readFileSync(join(out, 'weights.npz')).equals(weights)).toBe(true)
  })

  it('refuses to resume with another seed', { timeout: 300_000 }, () => {
    const { status, stderr } = spawnSync(
      python,
      [join(FOLDER, 'train.py'), '--data', data, '--out', out, '--small', '--seed', '2'],
      { encoding: 'utf8' },
    )
    expect(stderr).toContain('Use the same options, or another --out.')
    expect(status).toBe(1)
  })

  /** Tools of the atlas with requests made of their names; the last servers are the development set. */
  function writeData(): void {
    const servers = readdirSync('training/atlas/definitions').map((file) => {
      const { id, tools } = JSON.parse(readFileSync(join('training/atlas/definitions', file), 'utf8')) as {
        readonly id: string
        readonly tools: readonly Definition[]
      }
      return tools.map((tool) => ({ ...tool, id: `${id}::${tool.name}`, server: id }))
    })
    const kept = servers.splice(-4).flat()
    for (const [set, tools] of [
      ['train/mcp-corpus', servers.flat()],
      ['dev/sample', kept],
    ] as const) {
      const queries = tools.map(({ id, name }, at) => ({
        id: `${at}`,
        query: `please ${name.replace(/[_-]/g, ' ')}`,
        relevant: [id],
      }))
      mkdirSync(join(data, set), { recursive: true })
      writeFileSync(join(data, set, 'tools.jsonl'), tools.map((tool) => `${JSON.stringify(tool)}\n`).join(''))
      writeFileSync(join(data, set, 'queries.jsonl'), queries.map((query) => `${JSON.stringify(query)}\n`).join(''))
    }
  }
})

function run(...command: string[]): string {
  const { status, stdout, stderr } = spawnSync(python, command, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command.join(' ')}: exit code ${status}\n${stderr}`)
  return stdout
}
