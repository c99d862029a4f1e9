import { compileFunction } from 'node:vm'

/** What is only in files that import or export, or that are CommonJS. */
const MODULE = /^\s*(?:import|export)\b|\bmodule\.exports\b|^\s*exports\.|\brequire\s*\(/m
const DECLARED = /^(?:async\s+)?(?:function\s*\*?|const|let|var|class)\s+([A-Za-z_$][\w$]*)/gm

/** Whether a file is a plain script, whose functions script-style files expect to see. */
export const isScript = (file: string, source: string): boolean => /\.js$/.test(file) && !MODULE.test(source)

/** Runs a plain script and gives back what it declares at its top level. */
export function runScript(file: string, source: string): Record<string, unknown> {
  const names = [...new Set([...source.matchAll(DECLARED)].map(([, name]) => name as string))]
  const run = compileFunction(`${source}\n;return { ${names.join(', ')} }`, [], { filename: file })
  return run() as Record<string, unknown>
}

/** Names that script-style files share, as if all were one file. */
export interface ScriptScope {
  /** @returns names that are not shared, because the runtime has them already */
  share(file: string, names: Readonly<Record<string, unknown>>): string[]
  forget(file: string): void
}

export function createScriptScope(): ScriptScope {
  const scope = globalThis as Record<string, unknown>
  const owners = new Map<string, string>()
  const forget = (file: string): void => {
    for (const [name, owner] of owners)
      if (owner === file) {
        owners.delete(name)
        delete scope[name]
      }
  }
  return {
    share(file, names) {
      forget(file)
      return Object.entries(names).flatMap(([name, value]) => {
        // Pegboard itself runs with these names.
        if (name in scope && !owners.has(name)) return [name]
        owners.set(name, file)
        Object.defineProperty(scope, name, { value, configurable: true, writable: true, enumerable: false })
        return []
      })
    },
    forget,
  }
}
