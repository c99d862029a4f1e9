import { z } from 'zod'

const grantOptions = {
  tools: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe('Only these tools, by id or wire name, with `*`; default all that the profile has.'),
  effect: z
    .enum(['read', 'write', 'destructive'])
    .optional()
    .describe('Only tools that do no worse; servers are believed with trustHints alone. Default any.'),
}

const tokenOptions = z.strictObject({
  token: z.string().min(16).describe('The token; write "${NAME}" and set the variable.'),
  principal: z
    .string()
    .regex(/^[A-Za-z0-9@._:+-]{1,128}$/)
    .describe('Who it is: tools, logins and tasks are told by it.'),
  profile: z.string().optional().describe('The only profile it is for; default any, as the address says.'),
  roles: z.array(z.string()).default([]).describe('What it may do, for tools that ask for a role.'),
  ...grantOptions,
})

/** Signatures that need the private key of the issuer. Never `none`, never a shared secret. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const

/** Over plain http a key or a token would be anybody's; this machine alone is an exception. */
const isSafe = (text: string): boolean => {
  const { protocol, hostname, username, search, hash } = new URL(text)
  const loopback = hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname)
  return (protocol === 'https:' || (protocol === 'http:' && loopback)) && username + search + hash === ''
}
const safeUrl = z.url().refine(isSafe, 'must be an https address (http only on this machine) without a query')

const scopeOptions = z.strictObject({
  profile: z.string().optional().describe('The only profile it is for.'),
  roles: z.array(z.string()).default([]).describe('Roles it gives.'),
  ...grantOptions,
})

const oauthOptions = z.strictObject({
  issuer: safeUrl.describe('Who issues the access tokens, exactly as in their `iss`.'),
  audience: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .optional()
    .describe('What `aud` must name; default the address of this server, such as "https://mcp.example.com/mcp".'),
  jwksUri: safeUrl.optional().describe('Where the keys of the issuer are; default what its metadata says.'),
  algorithms: z
    .array(z.enum(ALGORITHMS))
    .min(1)
    .default([...ALGORITHMS])
    .describe('Signatures that are accepted.'),
  principalClaim: z
    .string()
    .min(1)
    .default('sub')
    .describe('The claim that names the principal, which is called `oauth:` and its value here.'),
  scopes: z
    .record(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/), scopeOptions)
    .default({})
    .describe(
      'What each scope lets its bearer do; one without any of them gets 403. Default: any token of the issuer may all.',
    ),
  keysCooldownMs: z
    .int()
    .min(1_000)
    .max(3_600_000)
    .default(30_000)
    .describe('Keys of the issuer are asked for again this soon at the earliest, whatever keys tokens name.'),
  plannedForMs: z
    .int()
    .min(0)
    .default(30 * 24 * 60 * 60_000)
    .describe('How long after the end of its access token what somebody planned is still done.'),
})

export const httpOptions = z.strictObject({
  host: z.string().default('127.0.0.1').describe('Address to listen on. Anything but loopback needs a token.'),
  port: z.int().min(0).max(65_535).default(3333).describe('Port to listen on; 0 takes a free one.'),
  auth: z
    .enum(['token', 'none'])
    .default('token')
    .describe('none serves everybody on this machine and is refused beyond loopback.'),
  token: z
    .string()
    .min(16)
    .optional()
    .describe('Bearer token; generated and kept in the state folder when unset. Use "${PEGBOARD_TOKEN}".'),
  tokens: z.array(tokenOptions).default([]).describe('More bearer tokens, each with the name of who has it.'),
  oauth: oauthOptions.optional().describe('Access tokens of an OAuth issuer that are accepted, too.'),
  publicUrl: safeUrl
    .refine((text) => new URL(text).pathname === '/', 'must have no path')
    .transform((text) => new URL(text).origin)
    .optional()
    .describe('The address that clients use, such as "https://mcp.example.com"; default host and port.'),
  allowedHosts: z.array(z.string()).default([]).describe('Host names accepted besides loopback ones.'),
  allowedOrigins: z
    .array(z.string())
    .default([])
    .describe('Browser origins (host names) accepted besides loopback ones.'),
  maxSessions: z.int().min(1).default(1_000).describe('2025-era sessions kept; the idlest goes first.'),
  sessionIdleMs: z
    .int()
    .min(1_000)
    .default(30 * 60_000)
    .describe('A 2025-era session ends after this long without a request.'),
  maxStreams: z.int().min(1).default(16).describe('Event streams that one principal may have open.'),
  // A call over HTTP/1.1 is a connection: a thousand at once, those that idle in the pools of their clients, and streams.
  maxConnections: z.int().min(1).default(4_096).describe('Connections at a time; further ones are closed at once.'),
  maxBodyBytes: z
    .int()
    .min(1_024)
    .default(4 * 1024 * 1024)
    .describe('Longest body of a request; a longer one is answered with 413.'),
  maxHeaderBytes: z
    .int()
    .min(4_096)
    .max(1024 * 1024)
    .default(16 * 1024)
    .describe('Longest head of a request; a longer one is answered with 431.'),
  headersTimeoutMs: z
    .int()
    .min(100)
    .default(15_000)
    .describe('A request whose head takes longer is answered with 408.'),
  requestTimeoutMs: z
    .int()
    .min(100)
    .default(30_000)
    .describe('A request that takes longer to arrive is answered with 408; answers may take as long as they like.'),
})

export const serverOptions = z.strictObject({
  name: z.string().min(1).max(64).default('pegboard').describe('Name the server gives itself.'),
  instructions: z.string().max(2_000).optional().describe('Text added to the instructions clients get.'),
  trustMeta: z
    .enum(['none', 'origin', 'all'])
    .default('origin')
    .describe(
      'What requests may say of themselves in _meta: nothing, where they come from and which message they serve, or their profile and provider too.',
    ),
  http: httpOptions.prefault({}),
})

export type HttpSettings = z.infer<typeof httpOptions>
export type OAuthSettings = z.infer<typeof oauthOptions>
export type TokenSettings = z.infer<typeof tokenOptions>
export type TrustMeta = ServerSettings['trustMeta']
export type ServerSettings = z.infer<typeof serverOptions>
