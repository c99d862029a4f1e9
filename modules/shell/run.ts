import { basename } from 'node:path'
import { type CallContext, type ToolDef, z } from 'pegboard'
import { requiredText } from '../_required-text.ts'
import { expandAliases } from './aliases.ts'
import { checkAllowed, checkVariables, checkWords } from './allow.ts'
import { type Command, type CommandRequest, sanitizeOutput, waitForExit } from './command.ts'
import { args, checkTexts, cwd, folderFor, line, type Settings, stdin, timeoutSeconds, variables } from './config.ts'
import { stateOf } from './state.ts'

type Context = CallContext<Settings>

const Output = z.object({
  exit_code: z.int().nullable(),
  signal: z.string().optional(),
  stdout: z.string(),
  stderr: z.string(),
  duration_ms: z.int(),
  timed_out: z.boolean(),
  truncated: z.boolean(),
  stdout_truncated: z.boolean().optional(),
  stderr_truncated: z.boolean().optional(),
})

/** An allowed program with its arguments. @throws ToolError E_DENIED_BY_POLICY, E_PATH_OUTSIDE_ROOT */
export async function programRequest(
  what: string,
  given: {
    readonly command: string
    readonly args: readonly string[]
    readonly cwd: string
    readonly env: Readonly<Record<string, string>>
  },
  settings: Settings,
): Promise<Omit<CommandRequest, 'timeoutMs'>> {
  const { env } = given
  checkTexts([given.command, ...given.args, ...Object.values(env)])
  checkVariables(settings, env)
  const sandboxNeed = checkAllowed(settings, given.command, given.args)
  checkWords(settings, what, [given.command, ...given.args].join(' '))
  const folder = await folderFor(settings, given.cwd)
  const sandboxed = settings.sandbox === 'all' || (settings.sandbox === 'scripts' && sandboxNeed !== 'none')
  // If everything is sandboxed, nothing has network access; otherwise a program that could run without a sandbox keeps it.
  const network = sandboxed && settings.sandbox === 'scripts'
  const canRunUnsandboxed = network && sandboxNeed === 'preferred'
  return {
    what,
    command: given.command,
    args: given.args,
    cwd: folder,
    env,
    sandboxed,
    canRunUnsandboxed,
    network,
  }
}

export const INTERPRETERS = ['bash', 'sh', 'node', 'python3'] as const

/** Text for an interpreter. @throws ToolError E_DENIED_BY_POLICY, E_PATH_OUTSIDE_ROOT */
export async function scriptRequest(
  what: string,
  given: {
    readonly text: string
    readonly interpreter: (typeof INTERPRETERS)[number]
    readonly args: readonly string[]
    readonly cwd: string
    /** A shell command line, with folder aliases. */
    readonly login?: boolean
  },
  settings: Settings,
): Promise<Omit<CommandRequest, 'timeoutMs'>> {
  const { interpreter } = given
  checkTexts([given.text, ...given.args])
  const { line: text, folders } = given.login
    ? await expandAliases(settings, given.text)
    : { line: given.text, folders: [] }
  checkWords(settings, what, [given.text, text, ...given.args].join(' '))
  const folder = await folderFor(settings, given.cwd)
  const interpreterArgs =
    interpreter === 'node'
      ? ['-e', text, '--']
      : interpreter === 'python3'
        ? ['-c', text]
        : [given.login ? '-lc' : '-c', text, interpreter]
  return {
    what,
    command: interpreter,
    args: [...interpreterArgs, ...given.args],
    cwd: folder,
    sandboxed: settings.sandbox !== 'off',
    writableFolders: /^file_(?:cache|state)_dir(?:\/|$)/.test(given.cwd) ? [...folders, folder] : folders,
  }
}

async function execute(
  request: Omit<CommandRequest, 'timeoutMs'>,
  given: { readonly timeout_seconds?: number | undefined; readonly stdin?: string | undefined },
  ctx: Context,
) {
  const { config, signal } = ctx
  const fullRequest: CommandRequest = {
    ...request,
    timeoutMs: Math.min(given.timeout_seconds ?? config.timeout, config.timeout) * 1_000,
    maxWritten: config.max_written_bytes,
    ...(given.stdin === undefined ? {} : { stdin: given.stdin }),
  }
  const command = await stateOf(ctx).starter.start(fullRequest, config)
  const stopReporting = reportProgress(command, ctx)
  try {
    return await waitForExit(command, fullRequest, config, signal)
  } finally {
    stopReporting()
    warnAboutCreated(command, ctx)
    if (command.failedInReadOnlyFolder())
      ctx.warn(
        "Nothing can be created, renamed or removed directly in a folder that holds Pegboard's files, such as its configuration. Work in a folder below it; modules.shell.config.roots can name others.",
      )
    warnAboutNetwork(command, ctx)
  }
}

export function warnAboutNetwork(command: Command, { warn }: Context): void {
  if (command.failedWithoutNetwork())
    warn(
      'The sandbox of this command has no network: no connection succeeds, not even to this machine. Its output says nothing about the address.',
    )
}

/** Creation of such files cannot be prevented everywhere, and may be someone else's work. */
function warnAboutCreated(command: Command, { warn, log }: Context): void {
  const createdNames = command.createdFiles().map((path) => basename(path))
  if (createdNames.length === 0) return
  const names = createdNames.join(', ')
  warn(`While this ran, ${names} was created, which other programs obey: ask a person to check it before use.`)
  log.warn('a file that other programs obey was created while a command ran in the sandbox', {
    made: command.createdFiles(),
  })
}

const PROGRESS_INTERVAL_MS = 2_000

/** Reports from time to time that a command is still running, with its last line. */
function reportProgress({ stdout, stderr, startedAt }: Command, { config, progress }: Context): () => void {
  const timer = setInterval(() => {
    const [last] = [stdout, stderr].map((output) => output.tail(1).trim()).filter(Boolean)
    const seconds = Math.round((Date.now() - startedAt) / 1_000)
    progress(seconds, undefined, sanitizeOutput((last ?? `${seconds} s`).slice(-200), config))
  }, PROGRESS_INTERVAL_MS)
  timer.unref()
  return () => clearInterval(timer)
}

const sideEffects = ['runs programs', 'can change files of the workspace']

const Run = z.object({
  command: line.describe('Program name, such as "git".'),
  args: args.default([]).describe('Arguments, one per entry, without expansion.'),
  cwd,
  timeout_seconds: timeoutSeconds,
  env: variables,
  stdin,
})

export const run: ToolDef<Settings, typeof Run> = {
  title: 'Run a program',
  description:
    'Run one allowed program with arguments, without a shell: no pipes, no globs, no variables. Returns exit code, stdout and stderr; a code other than 0 is an error that includes them. For a command line use bash; for long ones, background_run.',
  aliases: ['exec', 'run command', 'execute program', 'exécuter', 'lancer une commande', 'ejecutar', 'ausführen'],
  tags: ['shell', 'command', 'process'],
  input: Run,
  output: Output,
  volatile: ['duration_ms'],
  effect: 'destructive',
  sideEffects,
  examples: [{ input: { command: 'git', args: ['log', '--oneline', '-5'] } }],
  available: ({ config }) =>
    config.allowed_commands.length > 0 || 'name programs in modules.shell.config.allowed_commands',
  async run(given, ctx) {
    return await execute(await programRequest('run', given, ctx.config), given, ctx)
  },
}

const Bash = z.object({
  cmd: requiredText('cmd')
    .max(100_000)
    .describe('Command line. file_cache_dir/… and file_state_dir/… are separate folders.'),
  cwd,
  timeout_seconds: timeoutSeconds,
  stdin,
})

export const bash: ToolDef<Settings, typeof Bash> = {
  title: 'Run a command line',
  description:
    'Run a command line in bash, with pipes, in a sandbox: no network, and only the workspace is writable. Returns exit code, stdout and stderr; a code other than 0 is an error that includes them. For longer programs use script.',
  aliases: ['shell', 'terminal', 'command line', 'sh', 'ligne de commande', 'línea de comandos', 'Befehlszeile'],
  tags: ['shell', 'bash', 'command'],
  input: Bash,
  output: Output,
  volatile: ['duration_ms'],
  effect: 'destructive',
  sideEffects,
  examples: [{ input: { cmd: 'grep -rn "TODO" src | wc -l' } }],
  toldWhenOff: true,
  async run({ cmd, ...given }, ctx) {
    const script = { text: cmd, interpreter: 'bash' as const, args: [], cwd: given.cwd, login: true }
    return await execute(await scriptRequest('bash', script, ctx.config), given, ctx)
  },
}

const Script = z.object({
  content: line.describe('Source code.'),
  interpreter: z.enum(INTERPRETERS).default('bash').describe('Interpreter.'),
  args: args.default([]).describe('Arguments.'),
  cwd,
  timeout_seconds: timeoutSeconds,
  stdin,
})

export const script: ToolDef<Settings, typeof Script> = {
  title: 'Run a script',
  description:
    'Run a script that you write, in bash, sh, node or python3, in a sandbox: no network, and only the workspace is writable. The script is not saved. Returns exit code, stdout and stderr. For a single line use bash.',
  aliases: ['run script', 'run code', 'python', 'javascript', 'exécuter un script', 'Skript ausführen'],
  tags: ['shell', 'script', 'code'],
  input: Script,
  output: Output,
  volatile: ['duration_ms'],
  effect: 'destructive',
  sideEffects,
  examples: [
    { input: { content: 'import sys; print(sum(map(int, sys.argv[1:])))', interpreter: 'python3', args: ['1', '2'] } },
  ],
  async run({ content, ...given }, ctx) {
    return await execute(await scriptRequest('script', { ...given, text: content }, ctx.config), given, ctx)
  },
}
