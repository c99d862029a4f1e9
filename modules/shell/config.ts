import { realpath } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, z } from 'pegboard'
import { stringList } from '../_access.ts'
import { invalid } from '../_errors.ts'
import { ownFolders } from '../_folders.ts'
import { resolveAlias } from './aliases.ts'

const Allowed = z.union([
  z.string().min(1),
  z.strictObject({
    command: z.string().min(1).describe('A program, or a program with its first words: "git log".'),
    deny_args: stringList('Arguments to refuse: globs such as "--output*".'),
    sandbox: z.boolean().optional().describe('false runs the program outside the sandbox, with all your rights.'),
  }),
])

/** Unknown keys are rejected, so that a misspelled limit is not ignored. */
export const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Allow commands to run.'),
  allowed_commands: z
    .array(Allowed)
    .default([])
    .describe('Programs that run can start, or programs with their first words, such as "git log".'),
  sandbox: z
    .enum(['scripts', 'all', 'off'])
    .default('scripts')
    .describe(
      'scripts: everything runs in a sandbox; without one, only a few programs that read. all: nothing runs without a sandbox. off: no sandbox; commands can do all that you can do.',
    ),
  roots: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Folders to work in. Relative paths start at the first one. The sandbox can write only these. Default the workspace, also if modules.filesystem.config.roots is set.',
    ),
  readable: stringList('More paths that can be read in the sandbox, such as a version manager.'),
  file_cache_dir: z
    .string()
    .default('{{cache_dir}}/files')
    .describe('Folder behind file_cache_dir/… in command lines and cwd; empty disables it.'),
  file_state_dir: z
    .string()
    .default('{{state_dir}}/files')
    .describe('Folder behind file_state_dir/…; empty disables it.'),
  denied_paths: stringList('Paths that are hidden in the sandbox and cannot be named in commands.'),
  deny_tokens: stringList('Words that commands cannot contain. This is a hint for models, not protection.'),
  secrets_enabled: z
    .boolean()
    .default(false)
    .describe(
      'Also deny the word curl, for commands that could send credentials elsewhere. Default: true if url_fetch of the module web has secrets.enabled, else false.',
    ),
  redact: z.boolean().default(true).describe('Remove keys, tokens and passwords from output.'),
  env: z.record(z.string(), z.string()).default({}).describe('Environment variables for commands.'),
  env_passthrough: stringList("Names of Pegboard's variables to pass on."),
  env_allowed: z
    .array(z.string().min(1))
    .default(['CI', 'COLUMNS', 'FORCE_COLOR', 'LANG', 'LC_*', 'LINES', 'NODE_ENV', 'NO_COLOR', 'TZ'])
    .describe('Variables that a call can set: names, or a prefix and *. Others can make programs run others.'),
  timeout: z.number().min(1).max(300).default(30).describe('Maximum seconds of a command.'),
  max_output_bytes: z
    .int()
    .min(1024)
    .max(512 * 1024)
    .default(256 * 1024)
    .describe('Output kept of stdout and of stderr: the first and last half.'),
  max_written_bytes: z
    .int()
    .min(1024)
    .default(16 * 1024 * 1024)
    .describe('A foreground command that writes more is stopped.'),
  max_processes: z.int().min(1).max(4096).default(64).describe('A command with more processes is stopped.'),
  max_memory_bytes: z
    .int()
    .min(16 * 1024 * 1024)
    .default(1024 * 1024 * 1024)
    .describe('A command that uses more, with its children, is stopped.'),
  max_file_bytes: z
    .int()
    .min(1024)
    .default(256 * 1024 * 1024)
    .describe('Largest file that a sandboxed command can create.'),
  keep_free_bytes: z
    .int()
    .min(0)
    .default(1024 * 1024 * 1024)
    .describe('A sandboxed command that leaves less free disk space (or half of what was free, if less) is stopped.'),
  max_background: z
    .int()
    .min(0)
    .max(64)
    .default(8)
    .describe('Background commands of one principal at once. All together run up to four times as many.'),
  background_timeout: z.number().min(1).max(86_400).default(3_600).describe('Maximum seconds of a background command.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

export const rootsOf = ({ roots, workspace }: Settings): string[] =>
  roots?.map((root) => (isAbsolute(root) ? root : resolve(workspace, root))) ?? [workspace]

export const pathsFor = (settings: Settings, more: readonly string[] = []): Paths =>
  createPaths({
    roots: [...rootsOf(settings), ...more],
    denied: [...settings.denied_paths, settings.state_dir, settings.config_file],
    fixed: [settings.state_dir, settings.config_file],
    setting: 'modules.shell.config',
  })

/** The real path of a command's working folder. @throws ToolError E_PATH_OUTSIDE_ROOT, E_PATH_DENIED, E_NOT_FOUND */
export async function folderFor(settings: Settings, cwd: string): Promise<string> {
  const aliased = await resolveAlias(settings, cwd)
  const paths = aliased
    ? createPaths({ roots: [aliased.base], denied: settings.denied_paths, setting: 'modules.shell.config' })
    : pathsFor(settings)
  const { path } = await paths.listFolder(aliased ? aliased.rest : cwd)
  return await realpath(resolve(aliased ? aliased.base : (rootsOf(settings)[0] as string), path))
}

/** Checks arguments and input. @throws ToolError E_VALIDATION for text that no program can receive */
export function checkTexts(texts: readonly string[]): void {
  if (texts.some((text) => text.includes('\0')))
    throw invalid('An argument contains a NUL character.', 'Send plain text.')
}

export const cwd = z.string().min(1).max(4096).default('.').describe('Folder to run in, inside the workspace.')
export const timeoutSeconds = z
  .number()
  .min(0.1)
  .max(300)
  .optional()
  .describe('Timeout in seconds; default and maximum are set by the operator.')
export const stdin = z.string().max(1_000_000).optional().describe('Standard input; default empty.')
/** Linux limits one argument to 128 KiB. */
export const line = z.string().min(1).max(100_000)
export const variables = z
  .record(z.string().regex(/^[A-Za-z_]\w*$/), z.string().max(32_000))
  .default({})
  .describe('Environment variables, of those that the operator allows.')
export const args = z.array(z.string().max(100_000)).max(1_000)
