import { resolve } from 'node:path'
import type { Config } from './load.ts'

/** The folders that modules may work in, as far as the configuration names them: `root` and `roots` of any of them. */
export const rootsOf = ({ modules, dirs }: Pick<Config, 'modules' | 'dirs'>): readonly string[] =>
  Object.values(modules).flatMap((module) => {
    const { root, roots } = (module.config ?? {}) as Readonly<Record<string, unknown>>
    return [root, ...(Array.isArray(roots) ? roots : [])].flatMap((one) =>
      typeof one === 'string' ? [resolve(dirs.workspace, one.replaceAll('{{workspace}}', dirs.workspace))] : [],
    )
  })
