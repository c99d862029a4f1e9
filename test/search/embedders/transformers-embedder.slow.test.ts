import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Embedder, LoadProgress } from '../../../src/search/embedder.ts'
import { createTransformersEmbedder, PACKAGES } from '../../../src/search/embedders/transformers-embedder.ts'
import { type EmbedderSettings, searchOptions } from '../../../src/search/search-options.ts'
import { temporaryFolder } from '../../app.ts'
import { locateOptional } from './installed.ts'
import { TINY_DIMS, writeTinyModel } from './model.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

const settings = (options: object = {}): EmbedderSettings =>
  searchOptions.parse({ embedderOptions: options }).embedderOptions
const signal = () => new AbortController().signal

interface Setting {
  readonly model?: string
  readonly options?: object
  readonly locate?: (name: string) => string | undefined
  readonly baseDir?: string
  readonly signal?: AbortSignal
}

async function load(setting: Setting, progress: LoadProgress[] = []): Promise<Embedder> {
  const baseDir = setting.baseDir ?? temporaryFolder()
  const source = createTransformersEmbedder(setting.model ?? './model', settings(setting.options), {
    baseDir,
    cacheDir: join(baseDir, 'cache'),
    locate: setting.locate ?? locateOptional,
  })
  const embedder = await source.load(setting.signal ?? signal(), (one) => progress.push(one))
  closing.push(embedder.close)
  return embedder
}

function modelIn(name = 'model'): string {
  const folder = temporaryFolder()
  writeTinyModel(join(folder, name))
  return folder
}

/** The axes of a vector with a share above zero, largest first. */
const axes = (vector: Float32Array): number[] =>
  [...vector.keys()].filter((at) => vector[at]! > 0.01).sort((a, b) => vector[b]! - vector[a]!)

for (const name of PACKAGES) {
  const locate = (wanted: string) => (wanted === name ? locateOptional(name) : undefined)
  const missing = locateOptional(name) === undefined

  // In CI the packages must be installed, so the tests run and fail without them.
  describe.skipIf(missing && !process.env['CI'])(`a real ONNX model, run by ${name}`, { timeout: 60_000 }, () => {
    it('returns a vector of length 1 for each text: the mean of its words', async () => {
      const progress: LoadProgress[] = []
      const embedder = await load({ locate, baseDir: modelIn() }, progress)
      expect(embedder.dims).toBe(TINY_DIMS)
      const [readFile, sendMail, lireFichier] = await embedder.embed(
        ['read file', 'send mail', 'Lire fichier'],
        'document',
        signal(),
      )
      expect([...readFile!].map((value) => Number((value * value).toFixed(6)))).toEqual([0.5, 0.5, 0, 0, 0, 0, 0, 0])
      expect(axes(sendMail!)).toEqual([2, 3])
      expect(lireFichier).toEqual(readFile)
      expect(progress.map(({ file }) => file)).toContain('onnx/model_quantized.onnx')
    })

    it('accepts any number of texts, of any length, in batches', async () => {
      const embedder = await load({ locate, baseDir: modelIn(), options: { batchSize: 3 } })
      const words = ['read', 'file', 'send', 'mail', 'delete', 'weather', 'send '.repeat(400)]
      const vectors = await embedder.embed(words, 'document', signal())
      expect(vectors.map(axes)).toEqual([[0], [1], [2], [3], [4], [5], [2]])
    })

    it('adds the prefixes of queries and tools', async () => {
      const embedder = await load({
        locate,
        baseDir: modelIn(),
        options: { queryPrefix: 'read read ', documentPrefix: 'send send ' },
      })
      const [query] = await embedder.embed(['mail'], 'query', signal())
      const [document] = await embedder.embed(['mail'], 'document', signal())
      expect([axes(query!), axes(document!)]).toEqual([
        [0, 3],
        [2, 3],
      ])
    })

    it('names a file that is missing in a folder', async () => {
      const baseDir = modelIn()
      rmSync(join(baseDir, 'model/onnx/model_quantized.onnx'))
      await expect(load({ locate, baseDir })).rejects.toMatchObject({
        code: 'E_CONFIG_INVALID',
        message: expect.stringMatching(/lacks the file .*model.onnx.model_quantized\.onnx/),
      })
    })

    it('loads from a folder with any name', async () => {
      const embedder = await load({ locate, baseDir: modelIn('my model (2)'), model: './my model (2)' })
      expect(embedder.dims).toBe(TINY_DIMS)
    })

    it('downloads nothing if downloads are disabled', async () => {
      const loading = load({ locate, model: 'someone/some-model', options: { download: false } })
      await expect(loading).rejects.toMatchObject({
        code: 'E_CONFIG_INVALID',
        message: expect.stringContaining('search.embedderOptions.download is false'),
      })
    })

    it('must have the configured vector length', async () => {
      await expect(load({ locate, baseDir: modelIn(), options: { dims: 384 } })).rejects.toThrow(
        /returns vectors of 8 dimensions, but search\.embedderOptions\.dims is 384/,
      )
    })

    it('has another id when its files change', async () => {
      const baseDir = modelIn()
      const first = await load({ locate, baseDir })
      const again = await load({ locate, baseDir })
      expect(again.id).toBe(first.id)
      writeFileSync(join(baseDir, 'model/config.json'), ' ', { flag: 'a' })
      expect((await load({ locate, baseDir })).id).not.toBe(first.id)
    })

    it('rejects requests after close', async () => {
      const embedder = await load({ locate, baseDir: modelIn() })
      await embedder.close()
      await expect(embedder.embed(['read'], 'query', signal())).rejects.toThrow(/was stopped/)
    })
  })
}

/** A fake package instead of the real one. */
function fakePackage(source: string): (name: string) => string | undefined {
  const file = join(temporaryFolder(), 'package.mjs')
  writeFileSync(file, source)
  return (name) => (name === PACKAGES[0] ? file : undefined)
}

const WORKING = `
  export const env = {}
  const answer = (texts) => ({ dims: [texts.length, 2], data: new Float32Array(texts.length * 2).fill(1) })
`

describe('a model that cannot be loaded', () => {
  it('needs a package, and the error says how to install it', async () => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'model'))
    await expect(load({ baseDir: folder, locate: () => undefined })).rejects.toMatchObject({
      code: 'E_CONFIG_INVALID',
      message: 'search.embedder "transformers:./model" needs a package that is not installed.',
      hint: 'Run: ONNXRUNTIME_NODE_INSTALL=skip npm install @huggingface/transformers (the variable keeps it from fetching GPU libraries).',
    })
  })

  it('is looked for in the configured folder', async () => {
    await expect(load({ model: './nowhere', locate: fakePackage(WORKING) })).rejects.toThrow(
      /there is no folder .*nowhere/,
    )
  })

  it('is abandoned if the hub never answers', async () => {
    const hub = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(hub, 'listening')
    closing.push(async () => void hub.close())
    const { port } = hub.address() as { port: number }
    const locate = fakePackage(`${WORKING}
      export const pipeline = () => fetch('http://127.0.0.1:${port}/model')
    `)
    await expect(load({ model: 'org/name', locate, options: { loadTimeoutMs: 500 } })).rejects.toThrow(
      /no progress for 500 ms while loading/,
    )
  })

  it('is not abandoned during a slow download', async () => {
    const progress: LoadProgress[] = []
    const locate = fakePackage(`${WORKING}
      export async function pipeline(_task, _model, { progress_callback }) {
        for (let loaded = 1; loaded <= 8; loaded++) {
          await new Promise((resolve) => setTimeout(resolve, 560))
          progress_callback({ status: 'progress', file: 'model.onnx', loaded, total: 8 })
        }
        return answer
      }
    `)
    await load({ model: 'org/name', locate, options: { loadTimeoutMs: 4_000 } }, progress)
    expect(progress.map(({ loaded }) => loaded)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(progress[0]).toEqual({ file: 'model.onnx', loaded: 1, total: 8 })
  }, 20_000)

  it('stops loading when it is no longer needed', async () => {
    const stop = new AbortController()
    const locate = fakePackage(`${WORKING}
      export const pipeline = () => new Promise(() => setInterval(() => 0, 1000))
    `)
    const loading = load({ model: 'org/name', locate, signal: stop.signal })
    stop.abort()
    await expect(loading).rejects.toThrow()
  })

  it('reports the last output of its process', async () => {
    const locate = fakePackage(`${WORKING}
      export const pipeline = async () => (texts) => {
        if (texts[0] !== 'crash') return answer(texts)
        process.stderr.write('out of luck\\n', () => process.exit(3))
        return new Promise(() => 0)
      }
    `)
    const embedder = await load({ model: 'org/name', locate })
    const both = ['crash', 'fine'].map((text) => embedder.embed([text], 'query', signal()))
    await expect(Promise.allSettled(both)).resolves.toMatchObject([
      { status: 'rejected', reason: { message: 'transformers:org/name: its process ended (3): out of luck' } },
      { status: 'rejected', reason: { message: 'transformers:org/name: its process ended (3): out of luck' } },
    ])
  })

  it('that stops computing is killed after requestTimeoutMs', async () => {
    const locate = fakePackage(`${WORKING}
      export const pipeline = async () => (texts) => {
        if (texts[0] === 'forever') for (;;);
        return answer(texts)
      }
    `)
    const embedder = await load({ model: 'org/name', locate, options: { requestTimeoutMs: 1_000 } })
    await expect(embedder.embed(['forever'], 'document', signal())).rejects.toThrow(/no vectors within 1000 ms/)
  })

  it("cannot write to Pegboard's stdout", async () => {
    const locate = fakePackage(`${WORKING}
      console.log('not a protocol message')
      export const pipeline = async () => answer
    `)
    const embedder = await load({ model: 'org/name', locate })
    expect(await embedder.embed(['x'], 'query', signal())).toEqual([Float32Array.of(1, 1)])
  })

  it('falls back to the second package if the first is broken', async () => {
    const broken = join(temporaryFolder(), 'broken.mjs')
    writeFileSync(broken, 'throw new Error("no native part")')
    const working = fakePackage(`${WORKING} export const pipeline = async () => answer`)
    const both = await load({
      model: 'org/name',
      locate: (name) => (name === PACKAGES[0] ? broken : working(PACKAGES[0])),
    })
    expect(both.dims).toBe(2)
    const alone = load({ model: 'org/name', locate: (name) => (name === PACKAGES[0] ? broken : undefined) })
    await expect(alone).rejects.toThrow(/no native part/)
  })
})
