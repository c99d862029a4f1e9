import { z } from 'zod'

const tokenOptions = z.strictObject({
  token: z.string().min(16).describe('The token; write "${NAME}" and set the variable.'),
  principal: z
    .string()
    .regex(/^[A-Za-z0-9@._:+-]{1,128}$/)
    .describe('Who it is: tools, logins and tasks are told by it.'),
  profile: z.string().optional().describe('The only profile it is for; default any, as the address says.'),
  roles: z.array(z.string()).default([]).describe('What it may do, for tools that ask for a role.'),
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
export type TokenSettings = z.infer<typeof tokenOptions>
export type TrustMeta = ServerSettings['trustMeta']
export type ServerSettings = z.infer<typeof serverOptions>
