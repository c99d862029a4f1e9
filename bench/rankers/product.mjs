import { rmSync } from 'node:fs'
import { mkdir, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * The product's search and its metrics, from the sources: what the package exports has neither. The bundle lies as deep in
 * dist/ as the real ones, so that files beside them are found alike, and is gone once loaded.
 */
export async function loadProduct() {
  const folder = `${root}/dist/bench`
  const outfile = `${folder}/search-${process.pid}.mjs`
  await mkdir(folder, { recursive: true })
  try {
    await build({
      stdin: {
        contents:
          "export * from './src/search/tool-search.ts'\nexport * from './src/search/evaluate.ts'\nexport * from './src/search/search-corpus.ts'\nexport * from './src/search/semantic-retriever.ts'\nexport * from './src/search/embedders/included-encoder.ts'\nexport * from './src/state/file-store.ts'\nexport * from './src/app/package-info.ts'",
        resolveDir: root,
      },
      outfile,
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'node20.19',
      logLevel: 'warning',
      banner: { js: "import{createRequire as __r}from'node:module';const require=__r(import.meta.url);" },
    })
    return await import(pathToFileURL(outfile).href)
  } finally {
    await rm(outfile, { force: true })
    await rmdir(folder).catch(() => undefined)
  }
}

/** A lane of the product as a ranker. Lanes of one product share the index of the corpus they were created for last. */
export function productRankers(product, lanes, { withAtlas = true } = {}) {
  const { createToolSearch, createSemanticRetriever, createBytesStore, sourceOfEvalTool, embeddedTable } = product
  /** Vectors of the encoder, so that no tool is encoded twice in a run. */
  const store = createBytesStore(join(tmpdir(), `pegboard-bench-${process.pid}`))
  process.on('exit', () => rmSync(join(tmpdir(), `pegboard-bench-${process.pid}`), { recursive: true, force: true }))
  let last
  const log = {
    ...Object.fromEntries(['debug', 'info', 'error'].map((level) => [level, () => undefined])),
    warn(message, { reason }) {
      throw new Error(`${message}: ${reason}`)
    },
  }
  async function searchOf(tools) {
    if (last?.tools === tools) return last.search
    await last?.search.close()
    const { atlas, ...files } = product.includedEncoderFiles()
    const semantic = createSemanticRetriever({
      source: product.createIncludedEncoder(withAtlas ? { ...files, atlas } : files),
      queryTimeoutMs: 60_000,
      log,
      store,
    })
    const search = createToolSearch({
      table: embeddedTable,
      ...(withAtlas && { atlas }),
      translate: product.includedTranslator(),
      semantic,
      log,
    })
    last = { tools, search }
    search.sync(tools.map(sourceOfEvalTool), 1)
    await search.warm()
    await semantic.settled()
    return search
  }
  const visible = () => true
  return lanes.map((lane) => ({
    name: lane,
    async create(tools) {
      const search = await searchOf(tools)
      return async (query, limit) => {
        const { hits, unanswered } = await search.query(query, { limit, visible, ranker: lane })
        return { ids: hits.map(({ id }) => id), unlikely: unanswered !== undefined }
      }
    },
  }))
}
