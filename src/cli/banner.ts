import type { App } from '../app.ts'
import type { Caller } from '../core/context.ts'
import { failureLine } from './describe.ts'
import { counted } from './io.ts'
import { PLACEHOLDER, type Reach, snippetsFor } from './snippets.ts'

/** What is being served, as people and scripts are told when it starts. */
export interface Facts {
  readonly url?: string
  /** Addresses of named profiles, where there are any. */
  readonly profiles?: readonly string[]
  readonly token?: string
  readonly mode: string
  readonly why: string
  readonly tools: number
  readonly categories: number
  readonly tokens: number
  readonly listedTokens: number
  readonly budgetTokens: number
  readonly failed: readonly { readonly file: string; readonly error: string }[]
  /** Modules are still being loaded: there will be more than these numbers say. */
  readonly loading?: true
  /** Every address of this machine is listened on, and clients elsewhere may call it by these names. */
  readonly names?: readonly string[]
}

export function factsOf(
  app: App,
  caller: Caller,
  http?: {
    readonly url: string
    readonly token: string | undefined
    readonly profiles?: readonly string[]
    readonly names?: readonly string[] | undefined
  },
): Facts {
  const view = app.view(caller)
  const { mode, why, tokens, budgetTokens } = app.explainExposure(caller)
  return {
    ...(http ? { url: http.url } : {}),
    ...(http?.profiles && http.profiles.length > 0
      ? { profiles: http.profiles.map((id) => `${http.url}/${encodeURIComponent(id)}`) }
      : {}),
    ...(http?.token === undefined ? {} : { token: http.token }),
    ...(http?.names === undefined ? {} : { names: http.names }),
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

/** How much there is, how it is shown, and why. */
export const shownText = ({ tools, categories, mode, why }: Facts): string =>
  `${counted(tools, 'tool')} in ${counted(categories, 'category', 'categories')}, shown in ${mode} mode: ${why}.`

const reachedBy = (names: readonly string[]): string =>
  names.length > 0
    ? `It listens on every address of this machine; clients elsewhere call it by: ${names.join(', ')}.`
    : 'It listens on every address of this machine; server.http.allowedHosts names how clients elsewhere may call it.'

/** The lines `serve` prints. @param reach leaves the snippets out when undefined */
export function bannerText(facts: Facts, reach: Reach | undefined): string {
  const lines = [
    facts.url === undefined ? 'Pegboard serves on stdio.' : `Pegboard serves at ${facts.url}`,
    ...(facts.names ? [reachedBy(facts.names)] : []),
    `${facts.loading ? 'So far ' : ''}${shownText(facts)}`,
    ...(facts.loading ? ['Modules are still being loaded; more tools appear when they are there.'] : []),
    `A client gets about ${facts.listedTokens} tokens of definitions.`,
    ...(facts.profiles ? [`Profiles: ${facts.profiles.join(' ')}`] : []),
    ...facts.failed.map((failed) => `Not loaded: ${failureLine(failed)}`),
  ]
  if (!reach) return `${lines.join('\n')}\n`
  if (reach.http?.token === PLACEHOLDER)
    lines.push(`For ${PLACEHOLDER} below write one of server.http.tokens, or one that pegboard token create printed.`)
  const snippets = snippetsFor(reach).map(({ client, place, text }) => `\n${client}, ${place}:\n${text}\n`)
  return `${lines.join('\n')}\n${snippets.join('')}`
}
