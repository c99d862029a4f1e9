import { INSTALLERS, programName } from './package-download.ts'
import type { ServerInfo } from './server-info.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { ServerContext } from './upstream-shared.ts'

/** Who uses one running instance of a server: everybody, one principal, or one client session. */
export type InstanceKind = 'shared' | 'principal' | 'session'

/**
 * Words in package, program or server names of servers that keep state between calls: an open page, a working folder,
 * variables.
 */
const WORDS: ReadonlySet<string> = new Set([
  // Browsers and screens
  'playwright',
  'puppeteer',
  'selenium',
  'webdriver',
  'browser',
  'browsers',
  'browsermcp',
  'browserbase',
  'browserstack',
  'hyperbrowser',
  'stagehand',
  'chrome',
  'chromium',
  'devtools',
  'firefox',
  'camoufox',
  'appium',
  // Shells and terminals
  'shell',
  'bash',
  'zsh',
  'powershell',
  'terminal',
  'iterm',
  'iterm2',
  'tmux',
  'ssh',
  'console',
  // Interpreters and debuggers
  'repl',
  'ipython',
  'jupyter',
  'notebook',
  'gdb',
  'lldb',
  'debugger',
])
const PACKAGES = /(?:^|[^a-z])(?:desktop-commander|desktopcommandermcp)(?:[^a-z]|$)/

/** Programs besides the installers whose arguments name the server. */
const INTERPRETERS = /^(?:node|python\d?(?:\.\d+)?)$/
/** Options of these programs whose value is not the server's name. */
const WITH_VALUE =
  /^(?:-e|--env|-v|--volume|--mount|-p|--publish|--name|--network|-w|--workdir|--env-file|-r|--require|--import)$/

const isStatefulName = (name: string): boolean => {
  const lower = name.toLowerCase()
  return PACKAGES.test(lower) || lower.split(/[^a-z0-9]+/).some((word) => WORDS.has(word))
}

/** The package or file name of a script; folders above it are irrelevant. */
function scriptName(file: string): string {
  const [, scoped] = /.*node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(file) ?? []
  return scoped ?? file.split(/[\\/]/).at(-1) ?? ''
}

function programNames(command: string, args: readonly string[]): readonly string[] {
  const program = programName(command)
  if (!INSTALLERS.test(program) && !INTERPRETERS.test(program)) return [scriptName(command)]
  const containers = program === 'docker' || program === 'podman'
  const names: string[] = []
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] as string
    // npx uses -p for the package; docker uses it for a port.
    const skips = WITH_VALUE.test(arg) && (containers || !/^(?:-p|--package)$/.test(arg))
    if (skips) at++
    else if (arg.startsWith('--package=') || arg.startsWith('--from=')) names.push(arg.slice(arg.indexOf('=') + 1))
    else if (!arg.startsWith('-') && !/^(?:run|exec|x|dlx|tool|create)$/.test(arg)) {
      names.push(/^(?:\.{0,2}[\\/]|[A-Za-z]:\\)|node_modules/.test(arg) ? scriptName(arg) : arg)
      // What follows the name are arguments of the server.
      if (!/^(?:--from|-p|--package|--with)$/.test(args[at - 1] ?? '')) break
    }
  }
  return names
}

/** @param ownName the server's own name, if it was connected before */
export function isStateful({ target }: ServerSettings, ownName: string | undefined): boolean {
  const names = target.kind === 'stdio' ? programNames(target.command, target.args) : []
  return [...names, ownName ?? ''].some(isStatefulName)
}

/** Decides who shares an instance of a server. @param ownLogins each principal has its own login @internal */
export function createInstanceSharing({ settings }: ServerContext, info: ServerInfo, ownLogins: boolean) {
  let judged: { readonly name: string | undefined; readonly stateful: boolean } | undefined

  // Computed on first use, because a start does not need it.
  function looksStateful(): boolean {
    const name = info.known().implementation?.name
    if (!judged || judged.name !== name) judged = { name, stateful: isStateful(settings(), name) }
    return judged.stateful
  }

  return {
    kind(): InstanceKind {
      const { instance } = settings()
      if (instance !== undefined) return instance
      if (ownLogins) return 'principal'
      return info.habits.asks || looksStateful() ? 'session' : 'shared'
    },
    /** True if instances only avoid waiting: callers may share the first one when the limit is reached. */
    mayShare: (): boolean => settings().instance === undefined && !ownLogins && !looksStateful(),
    /** True if the server keeps state between calls. */
    keepsState: (): boolean => (settings().instance ?? (looksStateful() ? 'session' : 'shared')) !== 'shared',
  }
}

/** @internal */
export type InstanceSharing = ReturnType<typeof createInstanceSharing>
