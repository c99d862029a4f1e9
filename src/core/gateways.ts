import { asRecord, isRecord } from './is-record.ts'

/**
 * Key in `_meta` of `tools/list`. A Pegboard that lists another Pegboard's tools sends `true`; the answer contains
 * the ids of all Pegboards its tools come through. A Pegboard that finds its own id there has detected a loop. Only
 * Pegboards that may list the tools get the ids, so that nobody can fake a loop.
 */
const GATEWAYS = 'pegboard/gateways'

/** More than any real chain. */
const MAX_IDS = 64
const ID = /^[0-9a-f]{32}$/

export const askingForGateways = { [GATEWAYS]: true } as const

export const asksForGateways = (meta: unknown): boolean => isRecord(meta) && meta[GATEWAYS] === true

export const gatewaysAnswer = (ids: readonly string[]): Readonly<Record<string, unknown>> => ({
  [GATEWAYS]: ids.slice(0, MAX_IDS),
})

/** The ids in an answer; none if the server is not a Pegboard. */
export function gatewaysIn({ _meta }: Readonly<Record<string, unknown>>): readonly string[] {
  const ids = asRecord(_meta)[GATEWAYS]
  return Array.isArray(ids) ? ids.slice(0, MAX_IDS).filter((id): id is string => ID.test(String(id))) : []
}
