import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, z } from 'pegboard'
import { ownFolders } from '../_folders.ts'

const hosts = z.array(z.string().min(1))

const common = {
  hosts: hosts
    .min(1)
    .describe(
      'The only places it is sent to: "api.example.com", "*.example.com", "api.example.com:8443", "localhost:*". Without a port: the usual one of the scheme.',
    ),
}
const Credential = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('bearer'), token: z.string().min(1), ...common }),
  z.strictObject({ type: z.literal('basic'), username: z.string(), password: z.string(), ...common }),
  z.strictObject({
    type: z.literal('api_key'),
    token: z.string().min(1),
    header: z
      .string()
      .regex(/^[A-Za-z0-9-]+$/)
      .default('X-API-Key'),
    ...common,
  }),
])

const MIB = 1024 * 1024

/** Unknown keys are refused: a misspelt limit must not leave something open. */
export const Config = z.strictObject({
  access: z
    .enum(['none', 'read', 'write'])
    .default('none')
    .describe('Which tools are there: none, those that only ask for pages, or all.'),
  allow_private_hosts: z
    .boolean()
    .default(false)
    .describe('Private networks and this machine may be reached. Where clouds keep credentials is never reached.'),
  allowed_hosts: hosts.optional().describe('The only hosts that may be reached: "example.com", "*.example.com".'),
  blocked_hosts: hosts.default([]).describe('Hosts that are never reached.'),
  allowed_headers: z
    .array(z.string().min(1))
    .default([])
    .describe('Headers that a model may set beside the usual ones.'),
  default_headers: z.record(z.string(), z.string()).default({}).describe('Headers of every request.'),
  credentials: z
    .record(z.string().regex(/^[A-Za-z0-9_.-]+$/), Credential)
    .default({})
    .describe('Logins by name; a model names them and never sees them.'),
  user_agent: z
    .string()
    .min(1)
    .default('{{user_agent}}')
    .describe('What requests say they come from; default services.fetch.userAgent.'),
  timeout: z.int().min(1).max(300).default(30).describe('Seconds a request may take, unless it asks for other.'),
  max_redirects: z.int().min(0).max(10).default(5).describe('Redirects that are followed.'),
  max_response: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(5 * MIB)
    .describe('Bytes of an answer, unpacked.'),
  max_text: z.int().min(1).default(200_000).describe('Characters of an answer that a model is shown.'),
  max_upload: z
    .int()
    .min(1)
    .default(100 * MIB)
    .describe('Bytes of a file that is sent.'),
  max_download: z
    .int()
    .min(1)
    .default(1024 * MIB)
    .describe('Bytes of a file that is fetched.'),
  max_downloads: z.int().min(1).max(64).default(4).describe('Downloads of one client at a time.'),
  roots: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe('Folders of uploads and downloads; default the workspace.'),
  denied_paths: z
    .array(z.string().min(1))
    .default([])
    .describe('What in them is never sent nor replaced: globs, folders or absolute paths.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.http.config'

interface View {
  readonly config: Settings
}
export const reads = ({ config }: View): true | string =>
  config.access !== 'none' || `set ${SETTING}.access to "read" or "write"`
export const writes = ({ config }: View): true | string =>
  config.access === 'write' || `set ${SETTING}.access to "write"`

/** The guarded way to the files that are sent and fetched. */
export function pathsFor(settings: Settings): Paths {
  const { workspace, roots = [workspace], denied_paths, state_dir, config_file, modules_dir } = settings
  return createPaths({
    roots: roots.map((path) => (isAbsolute(path) ? path : resolve(workspace, path))),
    denied: [...denied_paths, state_dir, config_file],
    denyNames: ['config.yaml', 'mcp.config.json', '.env'],
    fixed: [state_dir, config_file, '**/config.yaml', '**/mcp.config.json'],
    // Whoever writes these decides what Pegboard runs.
    protected: [modules_dir],
    setting: SETTING,
  })
}

/** Whether a host is one of these, by name or below `*.`. */
export function isAmong(host: string, list: readonly string[]): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return list.some((entry) => {
    const wanted = entry.toLowerCase()
    return wanted === '*' || (wanted.startsWith('*.') ? name.endsWith(wanted.slice(1)) : name === wanted)
  })
}
