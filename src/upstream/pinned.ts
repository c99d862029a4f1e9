import type { ServerSettings } from './settings.ts'

/** Programs that fetch a package and run it, and the words between them and the package. */
const RUNNERS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  npx: [[]],
  pnpx: [[]],
  bunx: [[]],
  npm: [['exec'], ['x']],
  pnpm: [['dlx'], ['exec']],
  yarn: [['dlx']],
  bun: [['x']],
  uvx: [[]],
  uv: [['tool', 'run']],
  pipx: [['run']],
  docker: [['run']],
  podman: [['run']],
}

/** Options that name the package; the word after them may be any. */
const NAMING = new Set(['-p', '--package', '--from', '--spec'])
const WITH_VALUE = new Set(['-c', '--call', '--python', '--with', '--index-url', '--registry', '-w', '--workspace'])

// An exact version, a commit, a digest; a path is as it is here.
const EXACT =
  /@v?\d+\.\d+\.\d+(?:[-+.][\w.+-]+)?$|==\d+[\w.+-]*$|[#@][0-9a-f]{40}$|@sha256:[0-9a-f]{64}$|^(?:\.{0,2}\/|file:|[A-Za-z]:\\)/
const DIGEST = /@sha256:[0-9a-f]{64}$/
const TAGGED = /^(?!\d+:)[\w./-]+:v?\d+\.[\w.-]+$/

/**
 * What a server is fetched as when it starts, where that is whatever is newest by then: its command runs something that
 * nobody has seen. Undefined for one that names its version, and for programs that fetch nothing.
 */
export function unpinned({ target }: ServerSettings): string | undefined {
  if (target.kind !== 'stdio') return undefined
  const program = (target.command.split(/[\\/]/).at(-1) ?? '').replace(/\.(?:cmd|exe)$/i, '')
  const runner = Object.hasOwn(RUNNERS, program) ? RUNNERS[program] : undefined
  const words = runner?.find((words) => words.every((word, at) => target.args[at] === word))
  if (!words) return undefined
  const rest = target.args.slice(words.length)
  // Its options take values in too many ways to tell the image from them.
  if (program === 'docker' || program === 'podman')
    return rest.some((word) => DIGEST.test(word) || TAGGED.test(word)) ? undefined : `an image of ${program}`
  const name = packageIn(rest)
  return name === undefined || EXACT.test(name) ? undefined : name
}

function packageIn(words: readonly string[]): string | undefined {
  const named = words.findIndex((word) => NAMING.has(word))
  if (named !== -1) return words[named + 1]
  const joined = words.find((word) => /^--(?:package|from|spec)=/.test(word))
  if (joined !== undefined) return joined.slice(joined.indexOf('=') + 1)
  return words.find((word, at) => !word.startsWith('-') && !WITH_VALUE.has(words[at - 1] ?? ''))
}
