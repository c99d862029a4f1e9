import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type EmbeddingTable, openTable } from './search/table.ts'

/** Where Pegboard itself is installed. */
export interface Package {
  readonly root: string
  readonly version: string
  /** Folder of the bundled modules: compiled ones in an installation, sources when run from source. */
  readonly modules: string
  /** File of the embedded search model. */
  readonly model: string
}

/** Finds the package this file belongs to, in `src/` as well as bundled into `dist/`. */
export function ownPackage(): Package {
  const here = fileURLToPath(import.meta.url)
  let root = dirname(here)
  while (!existsSync(join(root, 'package.json')) && dirname(root) !== root) root = dirname(root)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const fromSource = here.endsWith('.ts')
  return {
    root,
    version,
    modules: join(root, fromSource ? 'modules' : 'dist/modules'),
    model: join(root, 'models/tools.bin'),
  }
}

let table: EmbeddingTable | undefined

/**
 * The embedded search model, read at the first call; one for the whole process.
 * @throws Error when its file is absent, RangeError when it is damaged
 */
export function embeddedTable(): EmbeddingTable {
  table ??= openTable(readFileSync(ownPackage().model))
  return table
}
