import { isAbsolute, resolve } from 'node:path'
import { type Paths, z } from 'pegboard'
import { access, accessChecks, stringList, userAgent } from '../_access.ts'
import { ownFolders, withoutOwnFiles } from '../_folders.ts'

const hosts = z.array(z.string().min(1))

const common = {
  hosts: hosts
    .min(1)
    .describe(
      'Hosts that get this login: "api.example.com", "*.example.com", "api.example.com:8443", "localhost:*". Without a port: the default port of the scheme.',
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

/** Unknown keys are rejected, so that a misspelled limit does not leave something open. */
export const Config = z.strictObject({
  access: access('Tools to enable: none, those that only read, or all.'),
  allow_private_hosts: z
    .boolean()
    .default(false)
    .describe('Allow private networks and this machine. Link-local addresses and cloud metadata are never allowed.'),
  allowed_hosts: hosts.optional().describe('Only these hosts are allowed: "example.com", "*.example.com".'),
  blocked_hosts: hosts.default([]).describe('Hosts that are never allowed.'),
  allowed_headers: stringList('More headers that a model can set.'),
  default_headers: z.record(z.string(), z.string()).default({}).describe('Headers sent with every request.'),
  credentials: z
    .record(z.string().regex(/^[A-Za-z0-9_.-]+$/), Credential)
    .default({})
    .describe('Logins by name; a model passes the name and never sees the secret.'),
  user_agent: userAgent,
  timeout: z.int().min(1).max(300).default(30).describe('Default timeout of a request (seconds).'),
  max_redirects: z.int().min(0).max(10).default(5).describe('Maximum number of redirects.'),
  max_response: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(5 * MIB)
    .describe('Maximum bytes of a response, decompressed.'),
  max_text: z.int().min(1).default(200_000).describe('Maximum characters of a response shown to a model.'),
  max_upload: z
    .int()
    .min(1)
    .default(100 * MIB)
    .describe('Maximum bytes of an upload.'),
  max_download: z
    .int()
    .min(1)
    .default(1024 * MIB)
    .describe('Maximum bytes of a download.'),
  max_downloads: z.int().min(1).max(64).default(4).describe('Downloads of one client at once.'),
  roots: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe('Folders for uploads and downloads; default the workspace.'),
  denied_paths: stringList('Paths in them that are never sent or replaced: globs, folders or absolute paths.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.http.config'

export const { reads, writes } = accessChecks(SETTING)

/** Guarded access to the files that are uploaded and downloaded. */
export function pathsFor(settings: Settings): Paths {
  const { workspace, roots = [workspace], denied_paths, state_dir } = settings
  return withoutOwnFiles(settings, {
    roots: roots.map((path) => (isAbsolute(path) ? path : resolve(workspace, path))),
    denied: [...denied_paths, state_dir],
    setting: SETTING,
  })
}

/** True if a host is in the list, by name or below `*.`. */
export function matchesHostList(host: string, list: readonly string[]): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return list.some((entry) => {
    const pattern = entry.toLowerCase()
    return pattern === '*' || (pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) : name === pattern)
  })
}
