import { z } from 'zod'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { constraintsOptions, policyOptions, rateLimitOptions, tripwireOptions } from '../policy/options.ts'
import type { ServerSettings } from '../server/options.ts'
import { deliberateOptions } from '../view/deliberate-options.ts'
import { exposureOptions } from '../view/options.ts'

type Changes<Shape extends z.ZodRawShape> = { [Key in keyof Shape]: z.ZodOptional<z.ZodType<z.output<Shape[Key]>>> }

/** The same settings with no defaults: what is not said stays as the file has it. */
const changesOf = <Shape extends z.ZodRawShape>({ shape }: z.ZodObject<Shape>): z.ZodObject<Changes<Shape>> =>
  z.strictObject(
    Object.fromEntries(
      Object.entries(shape).map(([key, field]) => {
        const { description } = field as z.ZodType
        const plain = field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : (field as z.ZodType)
        return [key, plain.optional().describe(description ?? '')]
      }),
    ),
  ) as unknown as z.ZodObject<Changes<Shape>>

const profileModule = z.strictObject({
  enabled: z.boolean().default(true).describe('false leaves the module or server out of this profile.'),
  config: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('Options of the module that are other ones here; put over those of the file.'),
  constraints: constraintsOptions.optional().describe('Which of its tools exist here, within what the file allows.'),
  tripwire: tripwireOptions
    .optional()
    .describe('At least this is done here about fields of results that look like credentials.'),
})

export const profileOptions = z.strictObject({
  use: z
    .array(z.string())
    .optional()
    .describe(
      'Modules and servers that exist here, such as "web" or "git*"; default all that are no other profile\'s own.',
    ),
  modules: z.record(z.string(), profileModule).default({}).describe('Settings by module or server name.'),
  mcpServers: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('Servers of this profile alone, as under mcpServers of the file.'),
  tools: z
    .record(
      z.string(),
      z.strictObject({
        enabled: z.boolean().default(true).describe('false switches the tool off here.'),
        rate_limit: rateLimitOptions.optional().describe('How often it may be called here.'),
      }),
    )
    .default({})
    .describe('Settings by tool name.'),
  provider: z
    .string()
    .toLowerCase()
    .default('')
    .describe('Provider of the model behind these clients, such as "openai".'),
  model: z
    .strictObject({
      id: z.string().default('').describe('Its name, such as "gpt-5".'),
      capabilities: z.array(z.string()).optional().describe('What it can do, such as "vision"; default everything.'),
    })
    .prefault({})
    .describe('The model behind these clients.'),
  flags: z.record(z.string(), z.boolean()).default({}).describe('Switches that tools ask for by name.'),
  permissions: z.array(z.string()).default([]).describe('What all callers of this profile may do.'),
  platform: z.string().default('mcp').describe('Where its callers come from when they do not say.'),
  policy: policyOptions.prefault({}).describe('What its clients may run, within what the file allows.'),
  deliberate: deliberateOptions
    .prefault({})
    .describe('Tools that are offered only when a message asks for what they do.'),
  exposure: changesOf(exposureOptions).default({}).describe('How much of the tools its clients are shown.'),
})

export type ProfileOptions = z.output<typeof profileOptions>

/** A profile with its own servers under the names they have in `Config.servers`. */
export interface ProfileSettings extends Omit<ProfileOptions, 'mcpServers'> {
  /** By the name in the profile. */
  readonly servers: Readonly<Record<string, string>>
}

/** Tokens that could not do what they are there for, with where they stand. */
export function* tokenProblems({
  server,
  profiles,
}: {
  readonly server: ServerSettings
  readonly profiles: Readonly<Record<string, unknown>>
}): Generator<readonly [path: readonly string[], what: string]> {
  const { token: first, tokens, auth } = server.http
  if (auth === 'none' && tokens.length > 0)
    yield [['server', 'http', 'tokens'], 'server.http.tokens name nobody where server.http.auth is "none"']
  const seen = new Set([first])
  for (const [at, { token, profile }] of tokens.entries()) {
    const path = ['server', 'http', 'tokens', String(at)]
    if (seen.has(token)) yield [path, `${path.join('.')} has the same token as another, so it names nobody`]
    seen.add(token)
    if (profile !== undefined && profile !== DEFAULT_PROFILE && !Object.hasOwn(profiles, profile))
      yield [path, `${path.join('.')}.profile names "${profile}", which is not under profiles`]
  }
}

/**
 * Names for the servers that profiles have of their own: as they are called, and with the profile's name behind where another
 * has the name with other settings. Equal entries are one server.
 */
export function placeServers(
  common: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): {
  readonly servers: Readonly<Record<string, unknown>>
  readonly names: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Where each stands in the file. */
  readonly where: ReadonlyMap<string, string>
} {
  const wanted = new Map<string, Set<string>>()
  for (const entries of Object.values(own))
    for (const [name, entry] of Object.entries(entries)) {
      const texts = wanted.get(name) ?? new Set()
      wanted.set(name, texts.add(JSON.stringify(entry)))
    }
  const servers: Record<string, unknown> = {}
  const names: Record<string, Record<string, string>> = {}
  const where = new Map<string, string>()
  for (const [profile, entries] of Object.entries(own)) {
    const placed: Record<string, string> = {}
    for (const [name, entry] of Object.entries(entries)) {
      const alone = !Object.hasOwn(common, name) && wanted.get(name)?.size === 1
      const id = alone ? name : `${name}_${profile}`
      servers[id] = entry
      placed[name] = id
      if (!where.has(id)) where.set(id, `profiles.${profile}.mcpServers.${name}`)
    }
    names[profile] = placed
  }
  return { servers, names, where }
}
