/** What `stdio` of a child may be. */
type Stdio = string | readonly unknown[] | undefined

/** Where a child would read what our client sends, or write what our client reads. */
function apart(stdio: Stdio): Stdio {
  if (stdio === 'inherit') return ['ignore', 2, 2]
  if (!Array.isArray(stdio)) return stdio
  return stdio.map((one: unknown, at) => {
    const fd = one === 'inherit' ? at : isStream(one) ? one.fd : one
    return fd === 0 ? 'ignore' : fd === 1 ? 2 : one
  })
}

const isStream = (value: unknown): value is { readonly fd: unknown } =>
  typeof value === 'object' && value !== null && 'fd' in value

/** Options stand last, behind a file, its arguments or both. */
const withoutOurs = (args: readonly unknown[]): unknown[] =>
  args.map((one) =>
    typeof one === 'object' && one !== null && !Array.isArray(one) && 'stdio' in one
      ? { ...one, stdio: apart(one.stdio as Stdio) }
      : one,
  )

let done = false

/**
 * From now on no child process of this process shares its stdin and stdout, which belong to the client: what would inherit
 * stdout writes to stderr. Node has no way to point descriptor 1 elsewhere, so this is done where children are started.
 */
export function keepChildrenOffStdio(): void {
  if (done) return
  done = true
  const children = process.getBuiltinModule('node:child_process')
  // `spawn`, `exec`, `execFile` and `fork` all end here.
  const { prototype } = children.ChildProcess as unknown as {
    prototype: { spawn(options: { readonly stdio?: Stdio }): unknown }
  }
  const { spawn } = prototype
  prototype.spawn = function (this: unknown, options) {
    return spawn.call(this as typeof prototype, { ...options, stdio: apart(options.stdio) })
  }
  for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) {
    const run = children[name] as (...args: unknown[]) => unknown
    Object.assign(children, { [name]: (...args: unknown[]) => run(...withoutOurs(args)) })
  }
  process.getBuiltinModule('node:module').syncBuiltinESMExports()
}
