import { z } from 'zod'
import { getOrInsert } from '../core/get-or-insert.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { constraintsOptions, policyOptions, rateLimitOptions, tripwireOptions } from '../policy/policy-options.ts'
import type { ServerSettings } from '../server/server-options.ts'
import { deliberateOptions } from '../view/deliberate-options.ts'
import { exposureOptions } from '../view/exposure-options.ts'

type OptionalShape<Shape extends z.ZodRawShape> = {
  [Key in keyof Shape]: z.ZodOptional<z.ZodType<z.output<Shape[Key]>>>
}

/** The same settings without defaults: a missing one keeps the file's value. */
const withoutDefaults = <Shape extends z.ZodRawShape>({
  shape,
}: z.ZodObject<Shape>): z.ZodObject<OptionalShape<Shape>> =>
  z.strictObject(
    Object.fromEntries(
      Object.entries(shape).map(([key, field]) => {
        const { description } = field as z.ZodType
        const plain = field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : (field as z.ZodType)
        return [key, plain.optional().describe(description ?? '')]
      }),
    ),
  ) as unknown as z.ZodObject<OptionalShape<Shape>>

const profileModule = z.lazy(() =>
  z.strictObject({
    enabled: z.boolean().default(true).describe('Set to false to turn the module or server off in this profile.'),
    config: z
      .record(z.string(), z.unknown())
      .default({})
      .describe('Options of the module in this profile. They override those outside the profile.'),
    constraints: constraintsOptions
      .optional()
      .describe('Tools of the module or server to allow in this profile, within the limits of the file.'),
    tripwire: tripwireOptions
      .optional()
      .describe('Minimum tripwire (what to do with credentials in results) of the module in this profile.'),
  }),
)

export const profileOptions = z.lazy(() =>
  z.strictObject({
    use: z
      .array(z.string())
      .optional()
      .describe(
        'Modules and servers of this profile, such as "web" or "git*" (default: all that do not belong to another profile).',
      ),
    folders: z
      .array(z.string().min(1))
      .default([])
      .describe(
        'Folders such as "~/projects/*". A client over stdio gets this profile if it starts Pegboard in such a folder or below it, or has its root there. --profile takes precedence.',
      ),
    modules: z.record(z.string(), profileModule).default({}).describe('Settings by module or server name.'),
    mcpServers: z
      .record(z.string(), z.unknown())
      .default({})
      .describe('Servers for this profile only, in the format of mcpServers.'),
    tools: z
      .record(
        z.string(),
        z.strictObject({
          enabled: z.boolean().optional().describe('Set to false to turn the tool off in this profile (default true).'),
          rate_limit: rateLimitOptions.optional().describe('Rate limit of the tool in this profile.'),
        }),
      )
      .default({})
      .describe('Settings by tool name.'),
    provider: z.string().toLowerCase().default('').describe('Model provider of these clients, such as "openai".'),
    model: z
      .strictObject({
        id: z.string().default('').describe('Name of the model, such as "gpt-5".'),
        capabilities: z
          .array(z.string())
          .optional()
          .describe('Capabilities of the model, such as "vision" (default: all).'),
      })
      .prefault({})
      .describe('Model that these clients use.'),
    flags: z.record(z.string(), z.boolean()).default({}).describe('Flags that tools require by name.'),
    permissions: z.array(z.string()).default([]).describe('Permissions of all callers of this profile.'),
    platform: z.string().default('mcp').describe('Platform of callers that do not name one.'),
    policy: policyOptions.prefault({}).describe('Policy for its clients, within the policy of the file.'),
    deliberate: deliberateOptions
      .prefault({})
      .describe('Tools that Pegboard lists only when a user message asks for them.'),
    exposure: withoutDefaults(exposureOptions.unwrap())
      .default({})
      .describe('How Pegboard lists tools to its clients.'),
  }),
)

export type ProfileOptions = z.output<typeof profileOptions>

/** A profile. `servers` maps its own server names to names in `Config.servers`. */
export interface ProfileSettings extends Omit<ProfileOptions, 'mcpServers'> {
  /** By name in the profile. */
  readonly servers: Readonly<Record<string, string>>
}

/** Tokens that cannot work, with their paths in the file. */
export function* tokenProblems(
  { token: first, tokens, auth }: ServerSettings['http'],
  profiles: Readonly<Record<string, unknown>>,
): Generator<readonly [path: readonly string[], what: string]> {
  if (auth === 'none' && tokens.length > 0)
    yield [['server', 'http', 'tokens'], 'server.http.tokens have no effect while server.http.auth is "none"']
  const seen = new Set([first])
  for (const [at, { token, profile }] of tokens.entries()) {
    const path = ['server', 'http', 'tokens', String(at)]
    if (seen.has(token)) yield [path, `${path.join('.')} has the same token as another entry, so it is ignored`]
    seen.add(token)
    if (profile !== undefined && profile !== DEFAULT_PROFILE && !Object.hasOwn(profiles, profile))
      yield [path, `${path.join('.')}.profile names "${profile}", which is not under profiles`]
  }
}

/**
 * Names the servers of profiles. A server keeps its name, or gets the profile's name appended if another one has it
 * with other settings. Equal entries are one server.
 */
export function nameServers(
  common: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): {
  readonly servers: Readonly<Record<string, unknown>>
  readonly names: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Paths in the file, by name. */
  readonly where: ReadonlyMap<string, string>
} {
  const textsByName = new Map<string, Set<string>>()
  for (const entries of Object.values(own))
    for (const [name, entry] of Object.entries(entries))
      getOrInsert(textsByName, name, () => new Set()).add(JSON.stringify(entry))
  const servers: Record<string, unknown> = {}
  const names: Record<string, Record<string, string>> = {}
  const where = new Map<string, string>()
  for (const [profile, entries] of Object.entries(own)) {
    const placed: Record<string, string> = {}
    for (const [name, entry] of Object.entries(entries)) {
      const alone = !Object.hasOwn(common, name) && textsByName.get(name)?.size === 1
      const id = alone ? name : `${name}_${profile}`
      servers[id] = entry
      placed[name] = id
      if (!where.has(id)) where.set(id, `profiles.${profile}.mcpServers.${name}`)
    }
    names[profile] = placed
  }
  return { servers, names, where }
}
