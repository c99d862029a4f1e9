import { z } from 'zod'

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
  http: httpOptions.prefault({}),
})

export type HttpSettings = z.infer<typeof httpOptions>
export type ServerSettings = z.infer<typeof serverOptions>
