import { z } from 'zod'
import { EFFECTS } from '../core/tool.ts'
import { isSafeUrl } from '../policy/network-rules.ts'

const grantOptions = () => ({
  tools: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Limit to these tools, by id or listed name; `*` matches any characters (default: all tools of the profile).',
    ),
  effect: z
    .enum(EFFECTS)
    .optional()
    .describe(
      'Maximum effect of the tools to allow (default: any). Pegboard uses the hints of a server only if its trustHints is set.',
    ),
})

const tokenOptions = z.lazy(() =>
  z.strictObject({
    token: z.string().min(16).describe('The token, at least 16 characters. Use "${NAME}" to read it from a variable.'),
    principal: z
      .string()
      .regex(/^[A-Za-z0-9@._:+-]{1,128}$/)
      .describe('Owner of the token. Tools, logins and tasks belong to this name.'),
    profile: z.string().optional().describe('Limit the token to this profile (default: the profile in the address).'),
    roles: z.array(z.string()).default([]).describe('Roles of the token, for tools that require a role.'),
    ...grantOptions(),
  }),
)

/** Signature algorithms with a private key of the issuer; never `none` or a shared secret. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const

const isSafe = (text: string): boolean => {
  const url = new URL(text)
  return isSafeUrl(url) && url.username + url.search + url.hash === ''
}
const safeUrl = () => z.url().refine(isSafe, 'must be an https address (http only on this machine) without a query')

const scopeOptions = z.lazy(() =>
  z.strictObject({
    profile: z.string().optional().describe('Limit the scope to this profile.'),
    roles: z.array(z.string()).default([]).describe('Roles that the scope grants.'),
    ...grantOptions(),
  }),
)

const oauthOptions = z.lazy(() =>
  z.strictObject({
    issuer: safeUrl().describe('Issuer of the access tokens, exactly as in their `iss` claim.'),
    audience: z
      .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
      .optional()
      .describe('Required `aud` claim (default: the address of this server, such as "https://mcp.example.com/mcp").'),
    jwksUri: safeUrl().optional().describe('Address of the keys of the issuer (default: from its metadata).'),
    algorithms: z
      .array(z.enum(ALGORITHMS))
      .min(1)
      .default([...ALGORITHMS])
      .describe('Accepted signature algorithms.'),
    principalClaim: z
      .string()
      .min(1)
      .default('sub')
      .describe('Claim that names the principal. Pegboard puts `oauth:` before its value.'),
    scopes: z
      .record(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/), scopeOptions)
      .default({})
      .describe(
        'Rights of each scope. A token with none of these scopes gets 403 (default: any token of the issuer has all rights).',
      ),
    keysCooldownMs: z
      .int()
      .min(1_000)
      .max(3_600_000)
      .default(30_000)
      .describe("Minimum time between two reads of the issuer's keys."),
    plannedForMs: z
      .int()
      .min(0)
      .default(30 * 24 * 60 * 60_000)
      .describe('How long schedules still run after the access token of their owner expires.'),
  }),
)

export const httpOptions = z.lazy(() =>
  z.strictObject({
    host: z
      .string()
      .default('127.0.0.1')
      .describe('Address to listen on. Addresses other than loopback require a token.'),
    port: z.int().min(0).max(65_535).default(3333).describe('Port to listen on (0: any free port).'),
    auth: z
      .enum(['token', 'none'])
      .default('token')
      .describe('How clients authenticate. none: no authentication, allowed on loopback only.'),
    token: z
      .string()
      .min(16)
      .optional()
      .describe(
        'Bearer token, at least 16 characters. If unset, Pegboard creates one in the state folder. Use "${PEGBOARD_TOKEN}" to read a variable.',
      ),
    tokens: z.array(tokenOptions).default([]).describe('Additional bearer tokens, each with the name of its owner.'),
    oauth: oauthOptions.optional().describe('OAuth issuer whose access tokens are accepted.'),
    page: z
      .boolean()
      .default(true)
      .describe(
        'Serve the page at /ui, for browsers on this machine only. To log in, run pegboard ui or enter the token.',
      ),
    publicUrl: safeUrl()
      .refine((text) => new URL(text).pathname === '/', 'must have no path')
      .transform((text) => new URL(text).origin)
      .optional()
      .describe('Address that clients use, such as "https://mcp.example.com" (default: host and port).'),
    allowedHosts: z
      .array(z.string())
      .default([])
      .describe('Additional allowed `Host` header values (loopback names are always allowed).'),
    allowedOrigins: z
      .array(z.string())
      .default([])
      .describe('Additional allowed browser origins, as host names (loopback names are always allowed).'),
    maxSessions: z
      .int()
      .min(1)
      .default(1_000)
      .describe(
        'Maximum number of sessions (protocol revisions before 2026). At the limit, Pegboard closes the longest idle session of the principal with the most sessions.',
      ),
    sessionIdleMs: z
      .int()
      .min(1_000)
      .default(30 * 60_000)
      .describe('Close a session after this long without a request.'),
    maxReplayBytes: z
      .int()
      .min(0)
      .default(4 * 1024 * 1024)
      .describe(
        'Maximum size of the messages kept for each session, for clients that resume a broken stream; 0 keeps none.',
      ),
    maxReplayEvents: z
      .int()
      .min(1)
      .default(1_000)
      .describe('Maximum number of messages kept for each session, for clients that resume a broken stream.'),
    maxStreams: z.int().min(1).default(16).describe('Maximum number of open event streams for each principal.'),
    // Room for 1,000 calls at once, idle connections in pools of clients, and streams.
    maxConnections: z
      .int()
      .min(1)
      .default(4_096)
      .describe('Maximum number of open connections. Pegboard closes further ones.'),
    maxBodyBytes: z
      .int()
      .min(1_024)
      .default(4 * 1024 * 1024)
      .describe('Maximum size of a request body. A longer one gets status 413.'),
    maxHeaderBytes: z
      .int()
      .min(4_096)
      .max(1024 * 1024)
      .default(16 * 1024)
      .describe('Maximum size of the request headers. Longer ones get status 431.'),
    headersTimeoutMs: z
      .int()
      .min(100)
      .default(15_000)
      .describe('Maximum time to receive the request headers. After it the request gets status 408.'),
    requestTimeoutMs: z
      .int()
      .min(100)
      .default(30_000)
      .describe(
        'Maximum time to receive a request. After it the request gets status 408. Responses have no such limit.',
      ),
  }),
)

export const serverOptions = z.lazy(() =>
  z.strictObject({
    name: z.string().min(1).max(64).default('pegboard').describe('Name that Pegboard reports to clients.'),
    instructions: z.string().max(2_000).optional().describe('Text to add to the instructions for clients.'),
    trustMeta: z
      .enum(['none', 'origin', 'all'])
      .default('origin')
      .describe(
        'Which `_meta` fields of a request to trust: none, its origin and message (origin), or also its profile, provider and access level (all).',
      ),
    http: httpOptions.prefault({}),
  }),
)

export type HttpSettings = z.infer<typeof httpOptions>
export type OAuthSettings = z.infer<typeof oauthOptions>
export type TokenSettings = z.infer<typeof tokenOptions>
export type TrustMeta = ServerSettings['trustMeta']
export type ServerSettings = z.infer<typeof serverOptions>
