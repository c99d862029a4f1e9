import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(import.meta.dirname, '../../optional/package.json'))

/** The file of a package that `npm ci --prefix test/optional` installs; undefined where that has not been done. */
export function locateOptional(name: string): string | undefined {
  try {
    return require.resolve(name)
  } catch {
    return undefined
  }
}
