import type { App } from '../app/app.ts'
import { failureLine } from '../app/failure-line.ts'
import type { Caller } from '../core/caller.ts'
import { formatCount } from '../core/format-count.ts'

import { omitUndefined } from '../core/omit-undefined.ts'
import { type ConnectionInfo, createSnippets, PLACEHOLDER } from './snippets.ts'

/** What `serve` reports when it starts. */
export interface ServeFacts {
  readonly url?: string
  /** URLs of named profiles. */
  readonly profiles?: readonly string[]
  /** Only for a terminal. */
  readonly token?: string
  /** Has the token that Pegboard created. */
  readonly tokenFile?: string
  /** Address of the page. */
  readonly page?: string
  /** The address with a code that logs in once; only for a terminal. */
  readonly pageLink?: string
  readonly mode: string
  readonly why: string
  readonly tools: number
  readonly categories: number
  readonly tokens: number
  readonly listedTokens: number
  readonly budgetTokens: number
  readonly failed: readonly { readonly file: string; readonly error: string }[]
  /** Modules are still loading, so the numbers will grow. */
  readonly loading?: true
  /** Host names for clients on other machines; present if every network interface is used. */
  readonly names?: readonly string[]
}

export function factsOf(
  app: App,
  caller: Caller,
  http?: {
    readonly url: string
    readonly token: string | undefined
    readonly tokenFile?: string | undefined
    readonly page?: string | undefined
    readonly pageLink?: string | undefined
    readonly profiles?: readonly string[]
    readonly names?: readonly string[] | undefined
  },
): ServeFacts {
  const view = app.view(caller)
  const { mode, why, tokens, budgetTokens } = app.explainExposure(caller)
  return {
    ...(http ? { url: http.url } : {}),
    ...(http?.profiles && http.profiles.length > 0
      ? { profiles: http.profiles.map((id) => `${http.url}/${encodeURIComponent(id)}`) }
      : {}),
    ...omitUndefined({
      token: http?.token,
      tokenFile: http?.tokenFile,
      page: http?.page,
      pageLink: http?.pageLink,
      names: http?.names,
    }),
    mode,
    why,
    tools: view.size,
    categories: view.owners.filter((owner) => view.count(owner.id) > 0).length,
    tokens,
    listedTokens: app.listedTokens(caller, mode),
    budgetTokens,
    failed: app.failed(),
    ...(app.loading() ? { loading: true as const } : {}),
  }
}

/** How many tools there are, how they are exposed, and why. */
export const describeExposure = ({ tools, categories, mode, why }: ServeFacts): string =>
  `${formatCount(tools, 'tool')} in ${formatCount(categories, 'category', 'categories')}, shown in ${mode} mode: ${why}.`

const describeNames = (names: readonly string[]): string =>
  names.length > 0
    ? `It listens on every address of this machine. Clients on other machines reach it as: ${names.join(', ')}.`
    : 'It listens on every address of this machine. To allow clients on other machines, add its host names to server.http.allowedHosts.'

function describePage({ page, pageLink }: ServeFacts): string[] {
  if (pageLink !== undefined)
    return [`Its page: ${pageLink}\n(This link works once, for 10 minutes. For a new one, run pegboard ui)`]
  return page === undefined ? [] : [`Its page: ${page} (to open it, run pegboard ui)`]
}

/** The lines `serve` prints. @param connection undefined leaves out the snippets */
export function formatBanner(facts: ServeFacts, connection: ConnectionInfo | undefined): string {
  const lines = [
    facts.url === undefined ? 'Pegboard serves on stdio.' : `Pegboard serves at ${facts.url}`,
    ...describePage(facts),
    ...(facts.names ? [describeNames(facts.names)] : []),
    ...(facts.loading ? ['Some modules are still loading. Clients get their tools when they are ready.'] : []),
    // Before any module has loaded, the numbers would be misleading.
    ...(facts.loading && facts.tools === 0
      ? []
      : [
          `${facts.loading ? 'So far ' : ''}${describeExposure(facts)}`,
          `A client gets about ${facts.listedTokens} tokens of definitions.`,
        ]),
    ...(facts.profiles ? [`Profiles: ${facts.profiles.join(' ')}`] : []),
    ...facts.failed.map((failed) => `Not loaded: ${failureLine(failed)}`),
  ]
  if (!connection) return `${lines.join('\n')}\n`
  if (connection.http?.tokenSource !== undefined)
    lines.push(
      `Replace ${PLACEHOLDER} below with ${connection.http.tokenSource}, or with one from pegboard token create.`,
    )
  const snippets = createSnippets(connection).map(({ client, place, text }) => `\n${client}, ${place}:\n${text}\n`)
  return `${lines.join('\n')}\n${snippets.join('')}`
}
