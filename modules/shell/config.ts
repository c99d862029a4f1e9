import { realpath } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, ToolError, z } from 'pegboard'
import { ownFolders } from '../_folders.ts'
import { placeOf } from './aliases.ts'

const list = (what: string) => z.array(z.string().min(1)).default([]).describe(what)

const Allowed = z.union([
  z.string().min(1),
  z.strictObject({
    command: z.string().min(1).describe('A program, or a program and the words that must follow it: "git log".'),
    deny_args: list('Arguments that are refused: globs such as "--output*".'),
    sandbox: z
      .boolean()
      .optional()
      .describe('false runs it without the sandbox, with all that its arguments and the files it reads make it do.'),
  }),
])

/** Unknown keys are refused: a misspelt limit must not be none. */
export const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Commands run only when this is true.'),
  allowed_commands: z
    .array(Allowed)
    .default([])
    .describe('What run may start: programs, or programs with their first words, such as "git log".'),
  sandbox: z
    .enum(['scripts', 'all', 'off'])
    .default('scripts')
    .describe(
      'What runs only in a sandbox: bash, script and every program but a few that only read, or all; "off" lets them do all that you can do.',
    ),
  roots: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe('Folders to work in, and all that a sandbox lets be written; default the workspace.'),
  readable: list('More folders or files that can be read in the sandbox, such as that of a version manager.'),
  file_cache_dir: z
    .string()
    .default('{{cache_dir}}/files')
    .describe('The folder that file_cache_dir/… means in command lines and cwd; empty: there is none.'),
  file_state_dir: z
    .string()
    .default('{{state_dir}}/files')
    .describe('The folder that file_state_dir/… means; empty: there is none.'),
  denied_paths: list('Paths that no command may run in or name, and that are hidden in the sandbox.'),
  deny_tokens: list('Words that no command may have. They help to say no early and stop nobody who means harm.'),
  secrets_enabled: z
    .boolean()
    .default(false)
    .describe('true denies the word curl, too: for commands that could send credentials elsewhere.'),
  redact: z
    .boolean()
    .default(true)
    .describe('Takes out of what commands write what looks like a key, a token or a password.'),
  env: z.record(z.string(), z.string()).default({}).describe('Variables that commands get.'),
  env_passthrough: list('Variables of Pegboard that commands get, too.'),
  env_allowed: z
    .array(z.string().min(1))
    .default(['CI', 'COLUMNS', 'FORCE_COLOR', 'LANG', 'LC_*', 'LINES', 'NODE_ENV', 'NO_COLOR', 'TZ'])
    .describe(
      'Variables that a call may set for a program: names, or their beginning and *. Others make programs run others.',
    ),
  timeout: z.number().min(1).max(300).default(30).describe('Seconds a command may take, unless a call asks for less.'),
  max_output_bytes: z
    .int()
    .min(1024)
    .max(512 * 1024)
    .default(256 * 1024)
    .describe('Kept of each of stdout and stderr: the first half and the last.'),
  max_written_bytes: z
    .int()
    .min(1024)
    .default(16 * 1024 * 1024)
    .describe('A command that writes more is ended; one in the background is not.'),
  max_processes: z.int().min(1).max(4096).default(64).describe('A command with more processes is ended.'),
  max_memory_bytes: z
    .int()
    .min(16 * 1024 * 1024)
    .default(1024 * 1024 * 1024)
    .describe('A command that uses more, with all that it started, is ended.'),
  max_file_bytes: z
    .int()
    .min(1024)
    .default(256 * 1024 * 1024)
    .describe('A command in the sandbox can make no file larger than this.'),
  keep_free_bytes: z
    .int()
    .min(0)
    .default(1024 * 1024 * 1024)
    .describe(
      'A command in the sandbox is ended when it leaves less of the disk free, or half of what was free where that is less.',
    ),
  max_background: z.int().min(0).max(64).default(8).describe('Commands that run in the background at a time.'),
  background_timeout: z.number().min(1).max(86_400).default(3_600).describe('Seconds one of them may take.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

export const rootsOf = ({ roots, workspace }: Settings): string[] =>
  roots?.map((root) => (isAbsolute(root) ? root : resolve(workspace, root))) ?? [workspace]

const pathsFor = (settings: Settings): Paths =>
  createPaths({
    roots: rootsOf(settings),
    denied: [...settings.denied_paths, settings.state_dir, settings.config_file],
    fixed: [settings.state_dir, settings.config_file],
    setting: 'modules.shell.config',
  })

/** The real place of the folder a command shall run in. @throws ToolError E_PATH_OUTSIDE_ROOT, E_PATH_DENIED, E_NOT_FOUND */
export async function folderFor(settings: Settings, cwd: string): Promise<string> {
  const place = await placeOf(settings, cwd)
  const paths = place
    ? createPaths({ roots: [place.base], denied: settings.denied_paths, setting: 'modules.shell.config' })
    : pathsFor(settings)
  const { path } = await paths.listFolder(place ? place.rest : cwd)
  return await realpath(resolve(place ? place.base : (rootsOf(settings)[0] as string), path))
}

/** What a command is given as text. @throws ToolError E_VALIDATION for what no program can be given */
export function checkTexts(texts: readonly string[]): void {
  if (texts.some((text) => text.includes('\0')))
    throw new ToolError('An argument holds a NUL character.', { code: 'E_VALIDATION', hint: 'Send plain text.' })
}

export const cwd = z.string().min(1).max(4096).default('.').describe('The folder to run in, inside the workspace.')
export const timeoutSeconds = z
  .number()
  .min(0.1)
  .max(300)
  .optional()
  .describe('Seconds it may take; default and most are what the operator set.')
export const stdin = z
  .string()
  .max(1_000_000)
  .optional()
  .describe('What it reads on its standard input; default nothing.')
/** One argument may have 128 KiB on Linux. */
export const line = z.string().min(1).max(100_000)
export const variables = z
  .record(z.string().regex(/^[A-Za-z_]\w*$/), z.string().max(32_000))
  .default({})
  .describe('Variables for it, of those that the operator lets be set.')
export const args = z.array(z.string().max(100_000)).max(1_000)
