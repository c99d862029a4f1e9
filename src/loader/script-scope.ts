import { compileFunction } from 'node:vm'

/** Matches syntax that only occurs in ES modules and CommonJS files. */
const MODULE = /^\s*(?:import|export)\b|\bmodule\.exports\b|^\s*exports\.|\brequire\s*\(/m
const DECLARED = /^(?:async\s+)?(?:function\s*\*?|const|let|var|class)\s+([A-Za-z_$][\w$]*)/gm

/** True for a plain script, whose functions script-style files share. */
export const isScript = (file: string, source: string): boolean => /\.js$/.test(file) && !MODULE.test(source)

/** Runs a plain script and returns its top-level declarations. */
export function runScript(file: string, source: string): Record<string, unknown> {
  const names = [...new Set([...source.matchAll(DECLARED)].map(([, name]) => name as string))]
  const run = compileFunction(`${source}\n;return { ${names.join(', ')} }`, [], { filename: file })
  return run() as Record<string, unknown>
}

/** Names that script-style files share, as if they were one file. */
export function createScriptScope() {
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
    /** @returns names that are not shared, because the runtime has them already */
    share(file: string, names: Readonly<Record<string, unknown>>): string[] {
      forget(file)
      return Object.entries(names).flatMap(([name, value]) => {
        // Pegboard may use this global name.
        if (name in scope && !owners.has(name)) return [name]
        owners.set(name, file)
        Object.defineProperty(scope, name, { value, configurable: true, writable: true, enumerable: false })
        return []
      })
    },
    forget,
  }
}
