import { programName } from './package-download.ts'
import type { ServerSettings } from './upstream-settings.ts'

/** Programs that download and run a package, and the words before the package name. */
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

/** Options that name the package; any word may follow. */
const NAMING = new Set(['-p', '--package', '--from', '--spec'])
const WITH_VALUE = new Set(['-c', '--call', '--python', '--with', '--index-url', '--registry', '-w', '--workspace'])

// An exact version, commit or digest, or a local path.
const EXACT =
  /@v?\d+\.\d+\.\d+(?:[-+.][\w.+-]+)?$|==\d+[\w.+-]*$|[#@][0-9a-f]{40}$|@sha256:[0-9a-f]{64}$|^(?:\.{0,2}\/|file:|[A-Za-z]:\\)/
const DIGEST = /@sha256:[0-9a-f]{64}$/
const TAGGED = /^(?!\d+:)[\w./-]+:v?\d+\.[\w.-]+$/

/**
 * The package that a server's command downloads in whatever version is newest, so that unreviewed code runs.
 * Undefined if the version is pinned or nothing is downloaded.
 */
export function unpinnedPackage({ target }: ServerSettings): string | undefined {
  if (target.kind !== 'stdio') return undefined
  const program = programName(target.command)
  const runner = Object.hasOwn(RUNNERS, program) ? RUNNERS[program] : undefined
  const words = runner?.find((words) => words.every((word, at) => target.args[at] === word))
  if (!words) return undefined
  const rest = target.args.slice(words.length)
  // Its options are too varied to find the image name.
  if (program === 'docker' || program === 'podman')
    return rest.some((word) => DIGEST.test(word) || TAGGED.test(word)) ? undefined : `an image of ${program}`
  const name = packageIn(rest)
  return name === undefined || EXACT.test(name) ? undefined : name
}

function packageIn(words: readonly string[]): string | undefined {
  const optionIndex = words.findIndex((word) => NAMING.has(word))
  if (optionIndex !== -1) return words[optionIndex + 1]
  const option = words.find((word) => /^--(?:package|from|spec)=/.test(word))
  if (option !== undefined) return option.slice(option.indexOf('=') + 1)
  return words.find((word, at) => !word.startsWith('-') && !WITH_VALUE.has(words[at - 1] ?? ''))
}
