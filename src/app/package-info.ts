import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { once } from '../core/once.ts'
import { type Atlas, openAtlas } from '../search/atlas.ts'
import type { EncoderFiles } from '../search/embedders/included-encoder.ts'
import { type EmbeddingTable, openTable } from '../search/embedding-table.ts'
import { createQueryTranslator, type QueryTranslator } from '../search/query-translator.ts'

/** Where Pegboard is installed. */
export interface Package {
  readonly root: string
  readonly version: string
  /** Address of the repository, where users find the documentation. */
  readonly repository: string
  /** Folder of the bundled modules: compiled in an installation, otherwise sources. */
  readonly modules: string
  /** File of the embedding table. */
  readonly model: string
  readonly encoder: EncoderFiles
  /** The compiled thread that runs scripts. */
  readonly codeThread: string
  /** File of the thread that reads kept results. */
  readonly resultThread: string
  /** File of the thread that counts tokens. */
  readonly tokenThread: string
  readonly page: string
}

/** The package of this file, both in `src/` and bundled in `dist/`. Read once for the process. */
export const ownPackage = once((): Package => {
  const here = fileURLToPath(import.meta.url)
  let root = dirname(here)
  while (!existsSync(join(root, 'package.json')) && dirname(root) !== root) root = dirname(root)
  const { version, homepage } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string
    homepage: string
  }
  const fromSource = here.endsWith('.ts')
  return {
    root,
    version,
    repository: homepage.replace('#readme', ''),
    modules: join(root, fromSource ? 'modules' : 'dist/modules'),
    model: join(root, 'models/tools.bin'),
    encoder: { thread: join(root, 'dist/encoder-thread.cjs'), model: join(root, 'models/encoder.bin') },
    codeThread: join(root, 'dist/code-thread.cjs'),
    resultThread: join(root, 'dist/result-thread.cjs'),
    tokenThread: join(root, 'dist/token-thread.cjs'),
    page: join(root, 'dist/ui'),
  }
})

/** Files of the included encoder, with the vectors of the tools in the atlas. */
export const includedEncoderFiles = (): EncoderFiles => ({ ...ownPackage().encoder, atlas: includedAtlas })

/** The included atlas of known tools, read once for the process. @throws Error if it is missing or damaged */
export const includedAtlas = once((): Atlas => openAtlas(join(ownPackage().root, 'models/atlas')))

/**
 * The embedded search model, read once for the process.
 * @throws Error if the file is missing, RangeError if it is damaged
 */
export const embeddedTable = once((): EmbeddingTable => openTable(readFileSync(ownPackage().model)))

/** Translates queries with the included dictionaries, which are read for the first query that needs them. */
export const includedTranslator = once(
  (): QueryTranslator => createQueryTranslator(join(ownPackage().root, 'models/dictionaries')),
)
