import { mkdir, rm, rmdir } from 'node:fs/promises'
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
          "export * from './src/search/index.ts'\nexport * from './src/search/evaluate.ts'\nexport * from './src/search/corpus.ts'\nexport * from './src/package.ts'",
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
export function productRankers({ createToolSearch, sourceOfEvalTool, embeddedTable }, lanes) {
  let last
  const log = {
    ...Object.fromEntries(['debug', 'info', 'error'].map((level) => [level, () => undefined])),
    warn(message, { reason }) {
      throw new Error(`${message}: ${reason}`)
    },
  }
  async function searchOf(tools) {
    if (last?.tools === tools) return last.search
    const search = createToolSearch({ table: embeddedTable, log })
    last = { tools, search }
    search.sync(tools.map(sourceOfEvalTool), 1)
    await search.warm()
    return search
  }
  const visible = () => true
  return lanes.map((lane) => ({
    name: lane,
    async create(tools) {
      const search = await searchOf(tools)
      return async (query, limit) => {
        const { hits } = await search.query(query, { limit, visible, lanes: lane })
        return hits.map(({ id }) => id)
      }
    },
  }))
}
