/** Values of a child's `stdio` option. */
type Stdio = string | readonly unknown[] | undefined

/** Replaces settings that would share stdin or stdout with the child. */
function separateStdio(stdio: Stdio): Stdio {
  if (stdio === 'inherit') return ['ignore', 2, 2]
  if (!Array.isArray(stdio)) return stdio
  return stdio.map((entry: unknown, index) => {
    const fd = entry === 'inherit' ? index : isStream(entry) ? entry.fd : entry
    return fd === 0 ? 'ignore' : fd === 1 ? 2 : entry
  })
}

const isStream = (value: unknown): value is { readonly fd: unknown } =>
  typeof value === 'object' && value !== null && 'fd' in value

/** Options are the last argument, after a file, its arguments, or both. */
const replaceStdioOptions = (args: readonly unknown[]): unknown[] =>
  args.map((arg) =>
    typeof arg === 'object' && arg !== null && !Array.isArray(arg) && 'stdio' in arg
      ? { ...arg, stdio: separateStdio(arg.stdio as Stdio) }
      : arg,
  )

let isInstalled = false

/**
 * Keeps child processes off this process's stdin and stdout, which belong to the client: a child that would inherit
 * stdout writes to stderr. Node cannot redirect descriptor 1, so this changes how children are started.
 */
export function keepChildrenOffStdio(): void {
  if (isInstalled) return
  isInstalled = true
  const children = process.getBuiltinModule('node:child_process')
  // `spawn`, `exec`, `execFile` and `fork` all call this.
  const { prototype } = children.ChildProcess as unknown as {
    prototype: { spawn(options: { readonly stdio?: Stdio }): unknown }
  }
  const { spawn } = prototype
  prototype.spawn = function (this: unknown, options) {
    return spawn.call(this as typeof prototype, { ...options, stdio: separateStdio(options.stdio) })
  }
  for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) {
    const run = children[name] as (...args: unknown[]) => unknown
    Object.assign(children, { [name]: (...args: unknown[]) => run(...replaceStdioOptions(args)) })
  }
  process.getBuiltinModule('node:module').syncBuiltinESMExports()
}
