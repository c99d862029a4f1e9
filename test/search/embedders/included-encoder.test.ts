import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { ownPackage } from '../../../src/app/package-info.ts'
import type { Embedder } from '../../../src/search/embedder.ts'
import { createIncludedEncoder } from '../../../src/search/embedders/included-encoder.ts'
import { sourceOfEvalTool } from '../../../src/search/evaluate.ts'
import { temporaryFolder } from '../../app.ts'

const source = createIncludedEncoder(ownPackage().encoder)
const { signal } = new AbortController()
let embedder: Embedder | undefined
afterEach(() => embedder?.close())
const load = async (): Promise<Embedder> => {
  embedder = await source.load(signal, () => undefined)
  return embedder
}
const toolOf = (name: string, description: string): string =>
  embedder!.textOf!(sourceOfEvalTool({ id: name, server: 'notes', name, description }))
const cosine = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, at) => sum + value * b[at]!, 0)

describe('the included encoder', () => {
  it('is closer to the tool that was asked for, in other words', async () => {
    const { embed } = await load()
    const tools = [
      toolOf('add_note', 'Store a piece of text for later'),
      toolOf('resize', 'Change the size of a picture'),
    ]
    const [note, resize] = await embed(tools, 'document', signal)
    const [query] = await embed(['remember this for me'], 'query', signal)
    expect(cosine(query!, note!)).toBeGreaterThan(cosine(query!, resize!) + 0.1)
  })

  it('is closer to a request that was written for the tool, and no farther from its definition', async () => {
    const { embed, textOf } = await load()
    const plain = sourceOfEvalTool({ id: 'zx', server: 'zx', name: 'zx_run', description: 'Opens valve group A.' })
    const asked = { ...plain, requests: ['water my plants', 'give the ferns a drink'] }
    const [before, after] = await embed([textOf!(plain), textOf!(asked)], 'document', signal)
    const [request, other, own] = await embed(
      ['the basil needs water', 'send a mail to Ann', 'open the valve'],
      'query',
      signal,
    )
    expect(cosine(request!, after!)).toBeGreaterThan(cosine(request!, before!) + 0.2)
    expect(cosine(request!, after!)).toBeGreaterThan(cosine(other!, after!) + 0.2)
    expect(cosine(own!, after!)).toBeGreaterThan(cosine(other!, after!))
  })

  it('answers a query before the tools that are waiting', async () => {
    const { embed } = await load()
    const order: string[] = []
    const tools = Array.from({ length: 40 }, (_, at) => toolOf(`tool_${at}`, 'Reads a thing. '.repeat(10)))
    await Promise.all([
      embed(tools, 'document', signal).then(() => order.push('tools')),
      embed(['read a thing'], 'query', signal).then(() => order.push('query')),
    ])
    expect(order).toEqual(['query', 'tools'])
  })

  it('rejects what is open when it is closed, and whatever comes later', async () => {
    const { embed, close } = await load()
    const open = embed([toolOf('a', 'b')], 'document', signal)
    const rejected = expect(open).rejects.toThrow('the search encoder was closed')
    await close()
    await rejected
    await expect(embed(['c'], 'query', signal)).rejects.toThrow('the search encoder was closed')
  })

  it('has encoded practice queries when it is loaded, because the first ones are slow', async () => {
    const thread = join(temporaryFolder(), 'counting-thread.cjs')
    writeFileSync(
      thread,
      `const { parentPort } = require('node:worker_threads')
      let queries = 0
      parentPort.on('message', ({ id }) => parentPort.postMessage({ id, vectors: Float32Array.of(++queries) }))
      parentPort.postMessage({ id: 'counting', dims: 1 })`,
    )
    embedder = await createIncludedEncoder({ thread, model: '' }).load(signal, () => undefined)
    const [vector] = await embedder.embed(['the first query of a client'], 'query', signal)
    expect(vector).toEqual(Float32Array.of(9))
  })

  it('fails to load without its model', async () => {
    const broken = createIncludedEncoder({ ...ownPackage().encoder, model: '/nowhere/encoder.bin' })
    await expect(broken.load(signal, () => undefined)).rejects.toThrow('ENOENT')
  })
})
