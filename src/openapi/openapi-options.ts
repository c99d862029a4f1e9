import { z } from 'zod'
import { toolOverrideOptions } from '../catalog/tool-override-options.ts'

const names = z.array(z.string())

const profile = z.lazy(() =>
  z.discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('apiKey'),
      value: z.string().min(1).describe('The key; write ${env:NAME}.'),
      in: z
        .enum(['header', 'query', 'cookie'])
        .optional()
        .describe('Where to send the key (default: from the document).'),
      name: z
        .string()
        .min(1)
        .optional()
        .describe('Name of the header, parameter or cookie (default: from the document).'),
    }),
    z.strictObject({
      type: z.literal('bearer'),
      token: z.string().min(1).describe('The token; write ${env:NAME}.'),
    }),
    z.strictObject({
      type: z.literal('basic'),
      username: z.string(),
      password: z.string().describe('Write ${env:NAME}.'),
    }),
    z.strictObject({
      type: z.literal('oauth2'),
      clientId: z.string().min(1),
      clientSecret: z.string().min(1).describe('Write ${env:NAME}.'),
      tokenUrl: z
        .url()
        .optional()
        .describe('Token endpoint (default: from the document, if it is on the server of the API).'),
      scopes: names
        .optional()
        .describe('Scopes to request (default: those that the document names for the operation).'),
    }),
  ]),
)

/** The description of an HTTP API whose operations become tools. */
export const apiOptions = z.lazy(() =>
  z.strictObject({
    document: z.string().min(1).describe('OpenAPI 3.x document: a file (relative to this file) or a URL.'),
    enabled: z.boolean().default(true).describe('Set to false to turn the API off.'),
    summary: z.string().optional().describe('One line about the API, shown with its category.'),
    baseUrl: z.url().optional().describe('Base URL of the API, instead of all servers that the document names.'),
    headers: z.record(z.string(), z.string()).default({}).describe('Headers sent with every call.'),
    auth: z
      .union([profile, z.record(z.string(), profile)])
      .optional()
      .describe(
        'Credentials: one entry for all operations, or one entry for each security scheme of the document, by its name.',
      ),
    prefix: z.string().optional().describe('Prefix of its tool names ("" for none; default: the key of this entry).'),
    allow: names.default([]).describe('Operations to allow, as globs on operation ids.'),
    deny: names.default([]).describe('Operations to deny, as globs on operation ids.'),
    tools: z
      .record(z.string(), toolOverrideOptions)
      .default({})
      .describe('By operation id: rename, describe, alias, replaces, timeoutMs, maxResultTokens.'),
    trust: z
      .enum(['review', 'first-use', 'always'])
      .default('first-use')
      .describe(
        'Which tools Pegboard quarantines until `pegboard review` approves them: all (review), tools that are new or change after the first connection (first-use, default), or only tools that are never safe, such as those with hidden text (always).',
      ),
    timeoutMs: z.int().min(100).max(600_000).default(60_000).describe('Maximum duration of a call, in milliseconds.'),
    maxResponseBytes: z.int().min(1_024).default(2_097_152).describe('Maximum size of a response.'),
    allowPrivate: z
      .boolean()
      .optional()
      .describe(
        'Allow addresses that are private or http. Default: only the addresses in baseUrl, document and tokenUrl, if baseUrl is set.',
      ),
  }),
)

export type AuthProfile = z.output<typeof profile>

type Entry = z.output<typeof apiOptions>

export interface ApiSettings extends Omit<Entry, 'auth' | 'prefix'> {
  /** By security scheme; `*` applies to every scheme. */
  readonly auth: Readonly<Record<string, AuthProfile>>
  readonly prefix: string
}

/** @param locate makes a path absolute and returns URLs unchanged */
export function readApi(id: string, entry: Entry, locate: (path: string) => string): ApiSettings {
  const { document, auth, prefix } = entry
  return {
    ...entry,
    document: isUrl(document) ? document : locate(document),
    auth: auth === undefined ? {} : isProfile(auth) ? { '*': auth } : auth,
    prefix: prefix ?? id,
  }
}

/** Key of an API in the lock file; no server can have this name. */
export const lockName = (id: string): string => `openapi.${id}`

/** True for keys of APIs in the lock file. */
export const isLockedApi = (name: string): boolean => name.startsWith(lockName(''))

export const isUrl = (document: string): boolean => /^https?:\/\//i.test(document)

const isProfile = (auth: AuthProfile | Record<string, AuthProfile>): auth is AuthProfile =>
  typeof auth['type'] === 'string'
