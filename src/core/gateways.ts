import { isRecord } from './record.ts'

/**
 * In `_meta` of `tools/list`. A Pegboard that asks another one sends `true`; the answer has the ids of the Pegboards that its
 * tools come through. One that finds its own id there would list its own tools once more. Only Pegboards are told, and
 * only who may list the tools: nobody else can make it look as if there was a loop.
 */
const GATEWAYS = 'pegboard/gateways'

/** More than anybody chains. */
const MAX_IDS = 64
const ID = /^[0-9a-f]{32}$/

export const askingForGateways = { [GATEWAYS]: true } as const

export const asksForGateways = (meta: unknown): boolean => isRecord(meta) && meta[GATEWAYS] === true

/** `_meta` of the answer. */
export const gatewaysAnswer = (ids: readonly string[]): Readonly<Record<string, unknown>> => ({
  [GATEWAYS]: ids.slice(0, MAX_IDS),
})

/** The ids in an answer; none from a server that is no Pegboard. */
export function gatewaysIn({ _meta }: Readonly<Record<string, unknown>>): readonly string[] {
  const ids = isRecord(_meta) ? _meta[GATEWAYS] : undefined
  return Array.isArray(ids) ? ids.slice(0, MAX_IDS).filter((id): id is string => ID.test(String(id))) : []
}
