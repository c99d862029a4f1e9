import { resolve } from 'node:path'
import type { Config } from './load-config.ts'

/** The folders named by `root` and `roots` of all modules. */
export const rootsOf = ({ modules, dirs }: Pick<Config, 'modules' | 'dirs'>): readonly string[] =>
  Object.values(modules).flatMap((module) => {
    const { root, roots } = (module.config ?? {}) as Readonly<Record<string, unknown>>
    return [root, ...(Array.isArray(roots) ? roots : [])].flatMap((one) =>
      typeof one === 'string' ? [resolve(dirs.workspace, one.replaceAll('{{workspace}}', dirs.workspace))] : [],
    )
  })
