import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(import.meta.dirname, '../../optional/package.json'))

/** A file of a package that `npm ci --prefix test/optional` installs; undefined if it is not installed. */
export function locateOptional(name: string): string | undefined {
  try {
    return require.resolve(name)
  } catch {
    return undefined
  }
}
