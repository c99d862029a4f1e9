import { openAppState } from '../app/app-state.ts'
import type { Config } from '../config/load-config.ts'
import { systemClock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { EFFECTS, type Effect } from '../core/tool.ts'
import { didYouMean } from '../core/tool-names.ts'
import { grantFitsNone } from '../policy/token-scope.ts'
import { grantsOf } from '../server/bearer-tokens.ts'
import { createToken, isExpired, type StoredToken, type TokenStore } from '../server/token-store.ts'
import { type Args, readChoice, readList, readOption, writeAnswer } from './args.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { openConfig, openLog, profileOption, withApp } from './open-app.ts'

/**
 * `pegboard token`: bearer tokens for this machine, or for all that share a Redis. A running server notices changes.
 */
export async function run(args: Args, io: Io): Promise<number> {
  const [action = 'list', name, ...more] = args.positionals
  const handler = new Map([
    ['create', createTokenCommand],
    ['list', listTokens],
    ['revoke', revokeTokens],
  ]).get(action)
  if (!handler || more.length > 0) throw new UsageError(`token takes create <name>, list or revoke <id or name>`)
  const { config } = await openConfig(args, io)
  const { tokens, shared } = await openAppState(config, openLog(args, io, 'warn', config.log.format))
  try {
    return await handler({ args, io, config, tokens, name })
  } finally {
    await shared.close()
  }
}

interface TokenCommand {
  readonly args: Args
  readonly io: Io
  readonly config: Config
  readonly tokens: TokenStore
  readonly name: string | undefined
}

const PATTERN = /^[\w.*:/-]{1,200}$/
const ROLE = /^[^\p{Cc}\p{Cf}\p{Z}](?:[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{0,126}[^\p{Cc}\p{Cf}\p{Z}])?$/u
const PRINCIPAL = /^[A-Za-z0-9@._:+-]{1,128}$/

async function createTokenCommand({ args, io, config, tokens, name }: TokenCommand): Promise<number> {
  if (name === undefined) throw new UsageError('token create takes the name of the token')
  const principal = readOption(args, 'principal') ?? name
  for (const value of [name, principal])
    if (!PRINCIPAL.test(value))
      throw new UsageError(`"${value}" is not a valid name; use 1 to 128 letters, digits and @ . _ : + -`)
  if (principal === 'local')
    throw new UsageError('local is the name of the person who runs Pegboard; choose another name')
  const now = systemClock.now()
  for (const pattern of readList(args, 'tools') ?? [])
    if (!PATTERN.test(pattern))
      throw new UsageError(`--tools takes names of tools such as github.*, not ${JSON.stringify(pattern.slice(0, 80))}`)
  for (const role of readList(args, 'role') ?? [])
    if (!ROLE.test(role)) throw new UsageError(`--role takes a name, not ${JSON.stringify(role.slice(0, 80))}`)
  const effect = readOption(args, 'effect') === undefined ? undefined : readChoice(args, 'effect', EFFECTS, 'read')
  const tools = readList(args, 'tools')
  const expires = readOption(args, 'expires')
  if ((await tokens.list()).some((storedToken) => storedToken.name === name && !isExpired(storedToken, now)))
    throw new UsageError(`a token "${name}" exists already; revoke it with pegboard token revoke ${name}`)
  const { token, stored } = createToken({
    name,
    principal,
    ...omitUndefined({ profile: profileOption(args, config) }),
    roles: readList(args, 'role') ?? [],
    ...grantsOf({ tools, effect }),
    createdAt: now,
    ...(expires === undefined ? {} : { expiresAt: now + parseDuration(expires) }),
  })
  await tokens.add(stored)
  const mistakes = [...findWiderThanConfigured(config, stored), ...(await findMistakes(args, io, { tools, effect }))]
  for (const warning of mistakes) writeWarning(io, warning)
  if (args.values['json'] === true) writeJson(io, { token, ...toJson(stored, now) })
  else {
    io.stdout(`${token}\n`)
    io.stderr(
      `Pegboard shows this token only once. Its name is ${name}${describeLimits(stored)}. To revoke it, run pegboard token revoke ${name}.\n`,
    )
  }
  return 0
}

/** A warning if the configuration limits every token of this principal in a way that this token does not. */
function findWiderThanConfigured(
  { server }: Config,
  { principal, profile, grants: [grant] = [] }: StoredToken,
): string[] {
  const ofPrincipal = server.http.tokens.filter((token) => token.principal === principal)
  if (ofPrincipal.length === 0) return []
  const given = { profile, tools: grant?.tools, effect: grant?.effect }
  const missing = (['profile', 'tools', 'effect'] as const).filter(
    (limit) => given[limit] === undefined && ofPrincipal.every((token) => token[limit] !== undefined),
  )
  if (missing.length === 0) return []
  const options = missing.map((limit) => `--${limit}`).join(', ')
  return [
    `server.http.tokens limits the tokens of ${principal}, and this token does not have the same limits: see ${options}`,
  ]
}

/** Likely mistakes of a token: patterns that match no known tool, and effects that servers' hints do not allow. */
async function findMistakes(
  args: Args,
  io: Io,
  { tools: patterns = [], effect }: { readonly tools: string[] | undefined; readonly effect: Effect | undefined },
): Promise<readonly string[]> {
  if (patterns.length === 0 && (effect === undefined || effect === 'destructive')) return []
  const mistakes: string[] = []
  const values = { config: args.values['config'], profile: DEFAULT_PROFILE }
  await withApp(
    { values, positionals: [] },
    { ...io, stderr: () => undefined },
    ({ app, caller }) => {
      const { owners, tools } = app.catalog.snapshot()
      const limits = { tools: patterns.length > 0 ? patterns : undefined }
      const namedView = app.view({ ...caller, ...grantsOf(limits) })
      if (effect === 'read') {
        const unverifiedRead = namedView.tools.filter(({ tool }) => tool.unverifiedRead === true)
        for (const { id, module } of app.upstreams.status()) {
          const count = unverifiedRead.filter(({ tool }) => tool.module === module && tool.effect === 'read').length
          if (count > 0) mistakes.push(formatUntrusted(app.upstreams.where(id), module, count))
        }
      }
      const usable = app.view({ ...caller, ...grantsOf({ ...limits, effect }) }).size
      if (effect !== undefined && namedView.size > 0 && usable === 0 && mistakes.length === 0)
        mistakes.push(formatUnusable(effect, namedView.size))
      const names = [...owners.keys(), ...tools.map(({ id }) => id)]
      for (const pattern of patterns.filter((toolPattern) => grantFitsNone(toolPattern, owners.values()))) {
        const prefix = pattern.replace(/[._]*\*$/, '')
        mistakes.push(`--tools "${pattern}" matches no tool${didYouMean(prefix, names, '.')}`)
      }
      return 0
    },
    { shouldWaitFor: () => false, waitS: 0 },
  )
  return mistakes
}

const formatUnusable = (effect: Effect, count: number): string =>
  `the token can use no tool: none of ${formatCount(count, 'tool')} that it names counts as "${effect}". Set "effect" of their server, or of single tools, to say what they do.`

const formatUntrusted = (where: string, module: string, count: number): string =>
  `--effect read leaves out ${formatCount(count, 'tool')} of ${module}, because only the server declares them read-only. Set ${where}.trustHints to true to trust it.`

async function listTokens({ args, io, config, tokens, name }: TokenCommand): Promise<number> {
  if (name !== undefined) throw new UsageError('token list takes no arguments')
  const now = systemClock.now()
  const tokenList = [...(await tokens.list())].sort((token, otherToken) => token.createdAt - otherToken.createdAt)
  const configured = describeConfigured(config)
  const none = `No tokens ${configured === '' ? 'exist' : 'were created'}. To create one, run pegboard token create <name>.\n`
  const text =
    tokenList.length === 0
      ? withTypedCommands(none, args, io)
      : formatTable(
          tokenList.map((token) => [token.id, token.name, `${describeState(token, now)}${describeLimits(token)}`]),
        )
  const rows = tokenList.map((token) => toJson(token, now))
  writeAnswer(args, io, rows, `${text}${configured}`)
  return 0
}

/** A line about the tokens that the configuration has, whose owners it names. */
function describeConfigured({ server: { http } }: Config): string {
  const owners = [...(http.token === undefined ? [] : ['local']), ...http.tokens.map(({ principal }) => principal)]
  return owners.length === 0
    ? ''
    : `The configuration has ${formatCount(owners.length, 'token')}: of ${owners.join(', ')}.\n`
}

async function revokeTokens({ args, io, tokens, name }: TokenCommand): Promise<number> {
  if (name === undefined) throw new UsageError('token revoke takes the id or the name of a token')
  const matches = (await tokens.list()).filter((token) => token.id === name || token.name === name)
  if (matches.length === 0)
    throw new PegboardError('E_NOT_FOUND', `There is no token "${name}".`, { hint: 'pegboard token list shows them.' })
  for (const { id } of matches) await tokens.remove(id)
  const text = `Revoked ${name}. A running server closes its connections within a second.\n`
  writeAnswer(args, io, { revoked: matches.map(({ id }) => id) }, text)
  return 0
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const MAX_DURATION_MS = 10 * 366 * 86_400_000

function parseDuration(word: string): number {
  const [, number, unit = ''] = /^(\d{1,6})([mhdw])$/.exec(word) ?? []
  const ms = Number(number) * (UNITS[unit] ?? Number.NaN)
  if (ms > 0 && ms <= MAX_DURATION_MS) return ms
  throw new UsageError(`--expires takes minutes, hours, days or weeks such as 90m, 12h, 30d or 4w, not "${word}"`)
}

const describeState = ({ expiresAt }: StoredToken, now: number): string => {
  if (expiresAt === undefined) return 'valid until revoked'
  return `${isExpired({ expiresAt }, now) ? 'expired' : 'valid until'} ${new Date(expiresAt).toISOString()}`
}

function describeLimits({ name, principal, profile, roles, grants }: StoredToken): string {
  const parts = [
    ...(principal === name ? [] : [`principal ${principal}`]),
    ...(profile === undefined ? [] : [`profile ${profile}`]),
    ...(roles.length === 0 ? [] : [`roles ${roles.join(', ')}`]),
    ...(grants ?? []).flatMap(({ tools, effect }) => [
      ...(tools ? [`tools ${tools.join(', ')}`] : []),
      ...(effect ? [`effect ${effect}`] : []),
    ]),
  ]
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`
}

/** The token for --json, without its digest. */
function toJson(token: StoredToken, now: number): object {
  const { id, name, principal, profile, roles, grants: [grant] = [], createdAt, expiresAt } = token
  return {
    id,
    name,
    principal,
    ...(profile === undefined ? {} : { profile }),
    roles,
    ...(grant?.tools ? { tools: grant.tools } : {}),
    ...(grant?.effect ? { effect: grant.effect } : {}),
    created_at: new Date(createdAt).toISOString(),
    ...(expiresAt === undefined ? {} : { expires_at: new Date(expiresAt).toISOString() }),
    state: isExpired(token, now) ? 'expired' : 'valid',
  }
}
