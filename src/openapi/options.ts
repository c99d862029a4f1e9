import { z } from 'zod'
import { readOverrides, type ToolOverride, toolOverrideOptions } from '../catalog/options.ts'
import { lockedAs } from './locked.ts'

const names = z.array(z.string())

const profile = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('apiKey'),
    value: z.string().min(1).describe('The key; write ${env:NAME}.'),
    in: z.enum(['header', 'query', 'cookie']).optional().describe('Where it goes; default what the document says.'),
    name: z.string().min(1).optional().describe('What it is called there; default what the document says.'),
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
      .describe('Where tokens are had; default what the document says, if that is where the API is.'),
    scopes: names.optional().describe('Scopes to ask for; default those the document names for the operation.'),
  }),
])

/** One description of an HTTP API whose operations become tools. */
export const apiOptions = z.strictObject({
  document: z.string().min(1).describe('OpenAPI 3.x document: a file, relative to this one, or a URL.'),
  enabled: z.boolean().default(true).describe('false leaves the API out.'),
  summary: z.string().optional().describe('One line about the API, shown with its category.'),
  baseUrl: z.url().optional().describe("Where the API is, instead of the document's servers."),
  headers: z.record(z.string(), z.string()).default({}).describe('Headers sent with every call.'),
  auth: z
    .union([profile, z.record(z.string(), profile)])
    .optional()
    .describe('One profile for all operations, or one for each security scheme of the document by its name.'),
  prefix: z
    .string()
    .optional()
    .describe('Put before the names of its tools; "" for none. Default: the key of this entry.'),
  allow: names.default([]).describe('Only these operations (globs on operation ids).'),
  deny: names.default([]).describe('Never these operations (globs).'),
  tools: z
    .record(z.string(), toolOverrideOptions)
    .default({})
    .describe('By operation id: rename, describe, alias, replaces, timeoutMs.'),
  trust: z
    .enum(['review', 'first-use', 'always'])
    .default('first-use')
    .describe(
      'review: all tools wait for `pegboard review`; first-use (default): those after the first look; always: none.',
    ),
  timeoutMs: z.int().min(100).max(600_000).default(60_000).describe('Longest a call may take, in milliseconds.'),
  maxResponseBytes: z.int().min(1_024).default(2_097_152).describe('Largest answer that is read.'),
  allowPrivate: z
    .boolean()
    .optional()
    .describe(
      'Whether addresses may be private or plain http. Default: only those you wrote yourself, where baseUrl is one of them.',
    ),
})

export type AuthProfile = z.output<typeof profile>

/** One API as the rest of this folder reads it. */
export interface ApiSettings {
  /** Absolute path or URL. */
  readonly document: string
  readonly enabled: boolean
  readonly summary?: string
  readonly baseUrl?: string
  readonly headers: Readonly<Record<string, string>>
  /** `*` stands for every scheme. */
  readonly auth: Readonly<Record<string, AuthProfile>>
  readonly prefix: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  readonly tools: Readonly<Record<string, ToolOverride>>
  /** `review`: new and changed operations wait for a person; `first-use`: those of the first look are taken; `always`: all. */
  readonly trust: 'review' | 'first-use' | 'always'
  readonly timeoutMs: number
  readonly maxResponseBytes: number
  /** Undefined: only what the operator named may be private. */
  readonly allowPrivate?: boolean
}

/** @param locate makes a path absolute; URLs are left alone */
export function readApi(id: string, entry: z.output<typeof apiOptions>, locate: (path: string) => string): ApiSettings {
  const { document, summary, baseUrl, auth, prefix, tools, allowPrivate, ...rest } = entry
  return {
    ...rest,
    document: isUrl(document) ? document : locate(document),
    auth: auth === undefined ? {} : isProfile(auth) ? { '*': auth } : auth,
    prefix: prefix ?? id,
    tools: readOverrides(tools),
    ...(allowPrivate === undefined ? {} : { allowPrivate }),
    ...(summary === undefined ? {} : { summary }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
  }
}

/** Whether the lock file calls an API so. */
export const isLockedApi = (name: string): boolean => name.startsWith(lockedAs(''))

export const isUrl = (document: string): boolean => /^https?:\/\//i.test(document)

const isProfile = (auth: AuthProfile | Record<string, AuthProfile>): auth is AuthProfile =>
  typeof auth['type'] === 'string'
